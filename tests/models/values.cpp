// Models against the same ones written in PyTorch 2.13: outputs and gradients in float64.
#include "nn/same.h"
#include "pellucid/models.h"

using namespace pellucid;
using namespace pellucid::nn_tests;

TEST_CASE("models values: CNN and ResNet-18") {
  same(in_eval(models::MnistCnn()), 12.36310591944, -66.23801620225, leaf({1, 1, 28, 28}, 10));
  same(models::resnet18(3), 14.86790955503, 989306.3384079, leaf({2, 3, 32, 32}, 10));
}

TEST_CASE("models values: GPT and Llama") {
  const Tensor tokens = tensor({{1, 5, 3, 9}, {16, 0, 2, 7}});
  same(models::GPT(
           models::GPTOptions().vocab_size(17).block_size(12).n_layer(2).n_head(2).n_embd(16)),
       2.075278756278, -6.908656953595, tokens);
  same(models::Llama(models::LlamaOptions()
                         .vocab_size(17)
                         .dim(16)
                         .hidden_dim(24)
                         .n_layers(2)
                         .n_heads(4)
                         .n_kv_heads(2)
                         .max_seq_len(8)),
       -1.61439623371, 1.395253485658, tokens);
}
