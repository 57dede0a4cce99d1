// Llama, and its reader of llama2.c's files.
#include "pellucid/models/llama.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "pellucid/operators.h"
#include "pellucid/ops.h"

namespace pellucid::models {

namespace {
nn::Linear make_linear(int64_t in, int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}
nn::RMSNorm make_norm(const LlamaOptions& o) {
  return nn::RMSNorm(nn::RMSNormOptions({o.dim()}).eps(o.norm_eps()));
}
}  // namespace

LlamaAttentionImpl::LlamaAttentionImpl(const LlamaOptions& o) : options(o) { reset(); }

void LlamaAttentionImpl::reset() {
  const auto& o = options;
  PELLUCID_CHECK(o.n_heads() > 0 && o.n_kv_heads() > 0 && o.dim() % o.n_heads() == 0 &&
                     o.n_heads() % o.n_kv_heads() == 0,
                 ValueError,
                 "Llama: dim {} must be divisible by n_heads {}, and n_heads by n_kv_heads {}.",
                 o.dim(), o.n_heads(), o.n_kv_heads());
  const int64_t kv = o.dim() / o.n_heads() * o.n_kv_heads();
  wq = register_module("wq", make_linear(o.dim(), o.dim()));
  wk = register_module("wk", make_linear(o.dim(), kv));
  wv = register_module("wv", make_linear(o.dim(), kv));
  wo = register_module("wo", make_linear(o.dim(), o.dim()));
  cache = nn::KVCache();
}

Tensor LlamaAttentionImpl::forward(const Tensor& x, nn::RotaryEmbedding rope, bool use_cache) {
  const nn::ModuleScope scope(*this);
  const int64_t batch = x.size(0), length = x.size(1), size = options.dim() / options.n_heads();
  const int64_t offset = use_cache ? cache.length() : 0;
  const auto heads = [&](nn::Linear& w) { return w(x).view({batch, length, -1, size}); };
  const Tensor q = rope(heads(wq), offset).transpose(1, 2);
  Tensor k = rope(heads(wk), offset).transpose(1, 2), v = heads(wv).transpose(1, 2);
  if (use_cache) std::tie(k, v) = cache.append(k, v);
  const Tensor y = nn::causal_attention(q, k, v, offset);
  return wo(y.transpose(1, 2).reshape({batch, length, options.dim()}));
}

LlamaFeedForwardImpl::LlamaFeedForwardImpl(const LlamaOptions& o) : options(o) { reset(); }

void LlamaFeedForwardImpl::reset() {
  w1 = register_module("w1", make_linear(options.dim(), options.hidden_dim()));
  w2 = register_module("w2", make_linear(options.hidden_dim(), options.dim()));
  w3 = register_module("w3", make_linear(options.dim(), options.hidden_dim()));
}

Tensor LlamaFeedForwardImpl::forward(const Tensor& x) {
  const nn::ModuleScope scope(*this);
  return w2(silu(w1(x)) * w3(x));
}

LlamaBlockImpl::LlamaBlockImpl(const LlamaOptions& o) : options(o) { reset(); }

void LlamaBlockImpl::reset() {
  attention = register_module("attention", nn::ModuleHolder<LlamaAttentionImpl>(options));
  feed_forward = register_module("feed_forward", nn::ModuleHolder<LlamaFeedForwardImpl>(options));
  attention_norm = register_module("attention_norm", make_norm(options));
  ffn_norm = register_module("ffn_norm", make_norm(options));
}

Tensor LlamaBlockImpl::forward(const Tensor& x, nn::RotaryEmbedding rope, bool use_cache) {
  const nn::ModuleScope scope(*this);
  const Tensor y = x + attention(attention_norm(x), rope, use_cache);
  return y + feed_forward(ffn_norm(y));
}

LlamaImpl::LlamaImpl(const LlamaOptions& o) : options(o) { reset(); }

void LlamaImpl::reset() {
  const auto& o = options;
  tok_embeddings = register_module("tok_embeddings", nn::Embedding(o.vocab_size(), o.dim()));
  layers = register_module("layers", nn::ModuleList());
  for (int64_t i = 0; i < o.n_layers(); ++i) layers->push_back(std::make_shared<LlamaBlockImpl>(o));
  norm = register_module("norm", make_norm(o));
  if (!o.tied()) output = register_module("output", make_linear(o.dim(), o.vocab_size()));
  rope = register_module(
      "rope",
      nn::RotaryEmbedding(
          nn::RotaryEmbeddingOptions(o.dim() / o.n_heads(), o.max_seq_len()).base(o.rope_base())));
  seen_ = 0;
  for (const Tensor& p : parameters())
    if (p.dim() == 2) nn::init::normal_(p, 0, 0.02);
}

Tensor LlamaImpl::forward(const Tensor& tokens, bool use_cache, bool last_only) {
  const nn::ModuleScope scope(*this);
  PELLUCID_CHECK(tokens.dim() == 2, ShapeError, "Llama: tokens must be [B, T], but are {}.",
                 tokens.sizes());
  const int64_t end = (use_cache ? seen_ : 0) + tokens.size(1);
  PELLUCID_CHECK(end <= options.max_seq_len(), ValueError,
                 "Llama: {} positions are more than max_seq_len {}.", end, options.max_seq_len());
  Tensor x = tok_embeddings(tokens);
  for (size_t i = 0; i < layers->size(); ++i)
    x = nn::detail::call_module(layers->at<LlamaBlockImpl>(i), x, rope, use_cache);
  if (use_cache) seen_ = end;
  if (last_only) x = x.narrow(1, x.size(1) - 1, 1);
  return linear(norm(x), output ? output->weight : tok_embeddings->weight);
}

Tensor LlamaImpl::logits(const Tensor& tokens, bool use_cache, bool last_only) {
  return forward(tokens, use_cache, last_only);
}

void LlamaImpl::clear_cache() {
  seen_ = 0;
  for (size_t i = 0; i < layers->size(); ++i)
    layers->at<LlamaBlockImpl>(i).attention->cache.clear();
}

namespace {

/// Reads little-endian numbers one after another and names the file when they end too early.
class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {
    std::error_code unknown;
    PELLUCID_CHECK(std::filesystem::is_regular_file(file, unknown), IoError,
                   "load_llama2c: '{}' is not a regular file.", file);
    in_.open(file, std::ios::binary);
    PELLUCID_CHECK(in_.good(), IoError, "load_llama2c: cannot open '{}'.", file);
  }
  int64_t integer() {
    int32_t v = 0;
    read(&v, sizeof v);
    return v;
  }
  void fill(const Tensor& t) { read(t.data_ptr<float>(), t.nbytes()); }
  /// The same field of every layer, layer by layer.
  template <class F> void fill_layers(LlamaImpl& m, F field) {
    for (size_t i = 0; i < m.layers->size(); ++i) fill(field(m.layers->at<LlamaBlockImpl>(i)));
  }
  void skip(int64_t floats) { in_.seekg(floats * 4, std::ios::cur); }

 private:
  void read(void* to, size_t bytes) {
    in_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    PELLUCID_CHECK(in_.good(), IoError, "load_llama2c: '{}' ends too early.", file_);
  }
  std::string file_;
  std::ifstream in_;
};

/// The bytes of a file of this model. A double holds them exactly up to 2^53, and does not overflow
/// where a false header asks for more.
double file_bytes(const LlamaOptions& o) {
  const auto dim = static_cast<double>(o.dim()), hidden = static_cast<double>(o.hidden_dim());
  const auto size = static_cast<double>(o.dim() / o.n_heads());
  const double kv = size * static_cast<double>(o.n_kv_heads());
  const double layer = dim * (2 + 2 * dim + 2 * kv + 3 * hidden);
  const double embeddings = static_cast<double>(o.vocab_size()) * (o.tied() ? 1 : 2);
  return 28 + 4 * (dim * (embeddings + 1) + static_cast<double>(o.n_layers()) * layer +
                   static_cast<double>(o.max_seq_len()) * size);
}

LlamaOptions read_header(Reader& in, const std::string& file) {
  LlamaOptions o;
  for (int64_t* field : {&o.dim(), &o.hidden_dim(), &o.n_layers(), &o.n_heads(), &o.n_kv_heads(),
                         &o.vocab_size(), &o.max_seq_len()})
    *field = in.integer();
  o.tied(o.vocab_size() > 0);  // a negative size says that the output has its own weight
  if (!o.tied()) o.vocab_size(-o.vocab_size());
  constexpr int64_t kMost = 1 << 20;  // beyond this the file is not such a model
  for (const int64_t field : {o.dim(), o.hidden_dim(), o.n_layers(), o.n_heads(), o.n_kv_heads(),
                              o.vocab_size(), o.max_seq_len()})
    PELLUCID_CHECK(field > 0 && field < kMost, IoError,
                   "load_llama2c: '{}' is not a llama2.c model: its header says {}.", file, field);
  PELLUCID_CHECK(o.dim() % (2 * o.n_heads()) == 0 && o.n_heads() % o.n_kv_heads() == 0, IoError,
                 "load_llama2c: '{}' has dim {}, {} heads and {} KV heads, which do not fit.", file,
                 o.dim(), o.n_heads(), o.n_kv_heads());
  return o;
}

}  // namespace

Llama load_llama2c(const std::string& file) {
  Reader in(file);
  const LlamaOptions o = read_header(in, file);
  const auto bytes = static_cast<double>(std::filesystem::file_size(file));
  PELLUCID_CHECK(bytes == file_bytes(o), IoError,
                 "load_llama2c: '{}' has {:.0f} bytes, but its header asks for {:.0f}.", file,
                 bytes, file_bytes(o));
  Llama model(o);
  in.fill(model->tok_embeddings->weight);
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.attention_norm->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.attention->wq->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.attention->wk->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.attention->wv->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.attention->wo->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.ffn_norm->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.feed_forward->w1->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.feed_forward->w2->weight; });
  in.fill_layers(*model, [](LlamaBlockImpl& b) { return b.feed_forward->w3->weight; });
  in.fill(model->norm->weight);
  in.skip(o.max_seq_len() * (o.dim() / o.n_heads()));  // cosines and sines, which we compute
  if (!o.tied()) in.fill(model->output->weight);
  return model;
}

}  // namespace pellucid::models
