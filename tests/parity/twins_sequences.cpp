// Embeddings, recurrent layers and attention: their constructors in the table of twins, in C++.
#include "parity/twins.h"

namespace pellucid::twins {

Modules sequence_layers() {
  return {
      {"Embedding(5, 3, padding_idx=2)",
       [] { return made(nn::Embedding(nn::EmbeddingOptions(5, 3).padding_idx(2))); }},
      {"Embedding(5, 3, max_norm=0.6)",
       [] { return made(nn::Embedding(nn::EmbeddingOptions(5, 3).max_norm(0.6))); }},
      {"Embedding(5, 3, scale_grad_by_freq=True)",
       [] { return made(nn::Embedding(nn::EmbeddingOptions(5, 3).scale_grad_by_freq(true))); }},
      {"EmbeddingBag(5, 3)", [] { return made(nn::EmbeddingBag(5, 3)); }},
      {"EmbeddingBag(5, 3, mode='sum', padding_idx=4)",
       [] {
         return made(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(kSum).padding_idx(4)));
       }},
      {"EmbeddingBag(5, 3, mode='max')",
       [] { return made(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(kMax))); }},
      {"EmbeddingBag(5, 3, scale_grad_by_freq=True)",
       [] {
         return made(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).scale_grad_by_freq(true)));
       }},
      {"EmbeddingBag(5, 3, mode='sum', include_last_offset=True)",
       [] {
         return made(
             nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(kSum).include_last_offset(true)));
       }},
      {"EmbeddingBag(5, 3, mode='sum', max_norm=0.6)",
       [] {
         return made(nn::EmbeddingBag(nn::EmbeddingBagOptions(5, 3).mode(kSum).max_norm(0.6)));
       }},
      {"RNN(3, 4)", [] { return made(nn::RNN(3, 4)); }},
      {"RNN(3, 4, 2, 'relu', bias=False, batch_first=True)",
       [] {
         return made(nn::RNN(
             nn::RNNOptions(3, 4).num_layers(2).nonlinearity(kReLU).bias(false).batch_first(true)));
       }},
      {"LSTM(3, 4)", [] { return made(nn::LSTM(3, 4)); }},
      {"LSTM(3, 4, 2, bidirectional=True, batch_first=True)",
       [] {
         return made(
             nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true).batch_first(true)));
       }},
      {"LSTM(3, 4, proj_size=2)",
       [] { return made(nn::LSTM(nn::LSTMOptions(3, 4).proj_size(2))); }},
      {"LSTM(3, 4, batch_first=True)",
       [] { return made(nn::LSTM(nn::LSTMOptions(3, 4).batch_first(true))); }},
      {"GRU(3, 4)", [] { return made(nn::GRU(3, 4)); }},
      {"GRU(3, 4, 2, bidirectional=True)",
       [] { return made(nn::GRU(nn::GRUOptions(3, 4).num_layers(2).bidirectional(true))); }},
      {"RNNCell(3, 4)", [] { return made(nn::RNNCell(3, 4)); }},
      {"RNNCell(3, 4, nonlinearity='relu', bias=False)",
       [] { return made(nn::RNNCell(nn::RNNCellOptions(3, 4).nonlinearity(kReLU).bias(false))); }},
      {"LSTMCell(3, 4)", [] { return made(nn::LSTMCell(3, 4)); }},
      {"GRUCell(3, 4)", [] { return made(nn::GRUCell(3, 4)); }},
      {"packed RNN(3, 4, 2, bidirectional=True)",
       [] { return packed(nn::RNN(nn::RNNOptions(3, 4).num_layers(2).bidirectional(true))); }},
      {"packed LSTM(3, 4, 2, bidirectional=True)",
       [] { return packed(nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).bidirectional(true))); }},
      {"packed LSTM(3, 4, proj_size=2)",
       [] { return packed(nn::LSTM(nn::LSTMOptions(3, 4).proj_size(2))); }},
      {"packed GRU(3, 4, bidirectional=True)",
       [] { return packed(nn::GRU(nn::GRUOptions(3, 4).bidirectional(true))); }},
      {"packed GRU(3, 4)", [] { return packed(nn::GRU(3, 4)); }},
      {"MultiheadAttention(8, 2)", [] { return made(nn::MultiheadAttention(8, 2)); }},
      {"MultiheadAttention(8, 2, bias=False, kdim=3, vdim=5, batch_first=True)",
       [] {
         return made(nn::MultiheadAttention(
             nn::MultiheadAttentionOptions(8, 2).bias(false).kdim(3).vdim(5).batch_first(true)));
       }},
      {"MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)",
       [] {
         return made(nn::MultiheadAttention(
             nn::MultiheadAttentionOptions(8, 2).add_bias_kv(true).add_zero_attn(true)));
       }},
      {"TransformerEncoderLayer(8, 2, 16, dropout=0.0)",
       [] {
         return made(nn::TransformerEncoderLayer(
             nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0)));
       }},
      {"TransformerEncoderLayer(8, 2, 16, dropout=0.0, norm_first=True, batch_first=True, "
       "activation='gelu')",
       [] {
         return made(nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(8, 2)
                                                     .dim_feedforward(16)
                                                     .dropout(0)
                                                     .norm_first(true)
                                                     .batch_first(true)
                                                     .activation(kGELU)));
       }},
      {"TransformerEncoder(TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, norm=LayerNorm(8), "
       "enable_nested_tensor=False)",
       [] {
         return made(nn::TransformerEncoder(
             nn::TransformerEncoderOptions(
                 nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(0), 2)
                 .norm(nn::AnyModule(nn::LayerNorm(std::vector<int64_t>{8})))));
       }},
      {"TransformerDecoderLayer(8, 2, 16, dropout=0.0)",
       [] {
         return made(nn::TransformerDecoderLayer(
             nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).dropout(0)));
       }},
      {"Transformer(8, 2, 1, 1, 16, dropout=0.0)",
       [] {
         return made(
             nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(16).dropout(0)));
       }},
  };
}

}  // namespace pellucid::twins
