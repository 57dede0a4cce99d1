// The rest of the library that Python reaches through functions: data, random numbers, threads,
// graph pictures, memory.
#include "base/random.h"
#include "caster.h"
#include "dlpack.h"
#include "from_data.h"
#include "pellucid/creation.h"
#include "pellucid/graph.h"
#include "pellucid/memory.h"
#include "pellucid/nn/init.h"
#include "pellucid/nn/utils.h"
#include "pellucid/ops.h"
#include "pellucid/parallel.h"
#include "pellucid/print_options.h"
#include "register.h"
#include "tensor/memory_category.h"

namespace pellucid::python {
namespace {

nb::object make_tensor(nb::object data, std::optional<DType> dtype, bool requires_grad) {
  Tensor t = tensor_from(data.ptr(), dtype);
  if (!requires_grad) return nb::steal(wrap(std::move(t)));
  t.requires_grad_();
  return nb::steal(wrap_known(t));
}

nb::dict memory_stats_dict() {
  const MemoryStats s = memory_stats();
  nb::dict d;
  d["allocated"] = s.allocated;
  d["cached"] = s.cached;
  d["reserved"] = s.reserved;
  d["peak"] = s.peak;
  d["peak_reserved"] = s.peak_reserved;
  d["limit"] = s.limit;
  d["allocations"] = s.allocations;
  nb::dict categories;
  for (int i = 0; i < kMemoryCategoryCount; ++i)
    categories[nb::str(std::string(name_of(static_cast<MemoryCategory>(i))).c_str())] =
        s.by_category[static_cast<size_t>(i)];
  d["by_category"] = categories;
  return d;
}

MemoryCategory category_from(const std::string& name) {
  for (int i = 0; i < kMemoryCategoryCount; ++i)
    if (name_of(static_cast<MemoryCategory>(i)) == name) return static_cast<MemoryCategory>(i);
  detail::raise<ValueError>("'{}' is no category of memory.", name);
}

// A context: what this thread allocates in it is counted as the category.
class CategoryScope {
 public:
  explicit CategoryScope(const std::string& name) : category_(category_from(name)) {}
  void enter() { guard_.emplace(category_); }
  void leave() { guard_.reset(); }

 private:
  MemoryCategory category_;
  std::optional<MemoryCategoryGuard> guard_;
};

void count_memory_as(const Tensor& t, const std::string& name) {
  if (t.defined() && t.impl().storage)
    detail::set_memory_category(*t.impl().storage, category_from(name));
}

using Names = std::vector<std::pair<std::string, Tensor>>;

Dot dot_of(const std::vector<Tensor>& roots, const Names& params, const std::string& rankdir,
           bool show_saved, bool show_shapes, int max_nodes) {
  DotOptions options;
  options.rankdir = rankdir;
  options.show_saved = show_saved;
  options.show_shapes = show_shapes;
  options.max_nodes = max_nodes;
  // Without the GIL: a node may be running on another thread, whose backward needs it.
  const nb::gil_scoped_release unlocked;
  return make_dot(roots, params, options);
}

nb::bytes render(const Dot& dot, const std::string& format) {
  std::string data;
  {
    const nb::gil_scoped_release unlocked;
    data = dot.render(format);
  }
  return nb::bytes(data.data(), data.size());
}

}  // namespace

void register_tools(nb::module_& m) {
  nb::class_<CategoryScope>(m, "_MemoryCategory")
      .def(nb::init<const std::string&>())
      .def("__enter__", &CategoryScope::enter)
      .def("__exit__", [](CategoryScope& s, nb::args) { s.leave(); });
  m.def("_count_memory_as", &count_memory_as);
  m.def("_make_tensor", make_tensor, nb::arg("data"), nb::arg("dtype").none() = nb::none(),
        nb::arg("requires_grad") = false);
  m.def("_over_buffer", [](nb::object o) { return nb::steal(wrap(tensor_over_buffer(o.ptr()))); });
  m.def("_from_dlpack", [](nb::object o) { return nb::steal(wrap(from_dlpack(o.ptr()))); });

  m.def("_manual_seed", [](uint64_t s) { manual_seed(s); });
  m.def("seed", [] { return seed(); });
  m.def("initial_seed", [] { return initial_seed(); });
  m.def("_rng_state", [] {
    const PhiloxRange s = default_generator().get_state();
    return std::make_pair(s.seed, s.offset);
  });
  m.def("_set_rng_state", [](uint64_t s, uint64_t offset) {
    default_generator().set_state({s, offset});
  });
  // Gives the calling thread a stream of random numbers of its own, for as long as it lives.
  m.def("_own_generator", [](uint64_t s) {
    thread_local Generator own;
    thread_local const GeneratorGuard guard(own);
    own.manual_seed(s);
  });
  m.def("get_num_threads", get_num_threads);
  m.def("set_num_threads", set_num_threads);
  m.def("get_default_dtype", get_default_dtype);
  m.def("_set_default_dtype", set_default_dtype);
  m.def("promote_types", promote_types);
  m.def("can_cast", can_cast, nb::arg("from_"), nb::arg("to"));
  m.def("_equal", [](const Tensor& a, const Tensor& b) { return a.equal(b); });
  m.def("_allclose", [](const Tensor& a, const Tensor& b, double rtol, double atol,
                        bool equal_nan) { return a.allclose(b, rtol, atol, equal_nan); });
  m.def("_is_set_to", [](const Tensor& a, const Tensor& b) { return a.is_same(b); });

  m.def(
      "_set_print_options",
      [](int precision, int64_t threshold, int64_t edgeitems, int64_t linewidth,
         std::optional<bool> sci_mode) {
        set_print_options({precision, threshold, edgeitems, linewidth, sci_mode});
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_print_options", [] {
    const PrintOptions o = get_print_options();
    return std::make_tuple(o.precision, o.threshold, o.edgeitems, o.linewidth, o.sci_mode);
  });

  m.def("memory_stats", memory_stats_dict);
  m.def("reset_peak_memory_stats", reset_peak_memory_stats);
  m.def("empty_cache", empty_cache);
  m.def("set_memory_limit", set_memory_limit);

  m.def("_init_orthogonal", [](Tensor t, double gain) { nn::init::orthogonal_(t, gain); });
  m.def("_init_trunc_normal", [](Tensor t, double mean, double std, double a, double b) {
    nn::init::trunc_normal_(t, mean, std, a, b);
  });
  m.def("_init_dirac", [](Tensor t) { nn::init::dirac_(t); });
  m.def("_init_sparse",
        [](Tensor t, double sparsity, double std) { nn::init::sparse_(t, sparsity, std); });
  m.def("_total_norm", [](const std::vector<Tensor>& tensors, double norm_type, bool error) {
    return nn::utils::get_total_norm(tensors, norm_type, error);
  });
  m.def("_clip_with_norm", [](const std::vector<Tensor>& p, double max_norm, const Tensor& norm) {
    nn::utils::clip_grads_with_norm_(p, max_norm, norm);
  });
  m.def("_clip_grad_value",
        [](const std::vector<Tensor>& p, double value) { nn::utils::clip_grad_value_(p, value); });

  nb::class_<Dot>(m, "Dot", "A graph as DOT text that can be written as a picture.")
      .def_prop_ro("source", &Dot::source)
      .def("_render", render)
      .def("save", &Dot::save);
  m.def("_make_dot", dot_of);
}

}  // namespace pellucid::python
