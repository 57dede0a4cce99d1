// Models: their constructors in the table of twins, in C++.
#include "parity/twins.h"
#include "pellucid/models.h"

namespace pellucid::twins {

Modules built_in_models() {
  using namespace models;
  return {
      {"MnistCnn()", [] { return made(MnistCnn()); }},
      {"ResNet18(3)", [] { return made(resnet18(3)); }},
      {"GPT(17, 12, 2, 2, 16)",
       [] {
         return made(
             GPT(GPTOptions().vocab_size(17).block_size(12).n_layer(2).n_head(2).n_embd(16)));
       }},
      {"Llama(17, 16, 24, 2, 4, 2)",
       [] {
         return made(Llama(LlamaOptions()
                               .vocab_size(17)
                               .dim(16)
                               .hidden_dim(24)
                               .n_layers(2)
                               .n_heads(4)
                               .n_kv_heads(2)
                               .max_seq_len(8)));
       }},
  };
}

}  // namespace pellucid::twins
