// Every record's large float32 sample, called by name.
#include "cases.h"

namespace pellucid::bench {

void add_record_cases(Cases& cases) {
  for (const OpDef* op : all_ops()) {
    const auto make_large = samples_of(*op).make_large;
    if (!make_large) continue;
    const std::string name =
        op->info->name + (op->info->overload.empty() ? "" : "." + op->info->overload);
    cases.push_back({"record/" + name, [make_large] {
                       auto sample = std::make_shared<Sample>(make_large());
                       auto kept = std::make_shared<std::vector<Value>>();
                       return Work{.once =
                                       [=] {
                                         const NoGradGuard guard;
                                         kept->clear();
                                         *kept = invoke(*sample->op, sample->args, sample->kwargs);
                                       },
                                   .results =
                                       [kept] {
                                         std::vector<Tensor> out;
                                         for (const Value& v : *kept) {
                                           if (const Tensor* t = v.as<Tensor>())
                                             out.push_back(*t);
                                           else if (const Values* list = v.as<Values>())
                                             for (const Value& e : *list) out.push_back(e.tensor());
                                         }
                                         return out;
                                       },
                                   .sample = sample};
                     }});
  }
}

}  // namespace pellucid::bench
