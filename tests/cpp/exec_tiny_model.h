// A tiny random Llama as a plan, a manifest and an in-memory WeightStore, and its naive evaluation
// in double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/numerics.h"
#include "engine/manifest.h"
#include "engine/weight_store.h"
#include "pack/n16k4.h"

namespace slipstream::exec {

struct TinyConfig {
  core::DType weights = core::DType::kBF16;
  core::DType kv = core::DType::kF32;
  int32_t layers = 3;
  int32_t hidden = 44;
  int32_t heads = 6;
  int32_t kv_heads = 2;
  int32_t head_dim = 10;
  int32_t rotary_dim = 10;
  int32_t mlp = 53;
  int32_t vocab = 101;
  int32_t window = 40;  ///< Of the second cache group, which holds the odd layers.
  int32_t max_tokens = 64;
  int32_t max_outputs = 8;
  int32_t max_seq_len = 640;
  bool bias = true;
};

/// Matrices as plain [rows][cols] doubles (already rounded to the weight type), for the naive
/// evaluation.
struct Matrix {
  int32_t rows = 0;
  int32_t cols = 0;
  std::vector<double> at;
};

class MemoryWeights final : public engine::WeightStore {
 public:
  Result<engine::TensorView> Find(std::string_view name) const override {
    const auto it = tensors.find(std::string(name));
    if (it == tensors.end()) return Status(StatusCode::kNotFound, "no tensor " + std::string(name));
    return engine::TensorView{&it->second.first, it->second.second.data()};
  }
  uint64_t version() const override { return 0; }
  std::map<std::string, std::pair<engine::Tensor, std::vector<std::byte>>> tensors;
};

class TinyModel {
 public:
  explicit TinyModel(const TinyConfig& config, uint32_t seed = 1) : config(config), rng_(seed) {
    MakeWeights();
    MakeManifest();
    MakePlan();
  }

  /// Logits after the last of `tokens`, in double precision throughout but for the rounding of the
  /// cache.
  std::vector<double> Naive(const std::vector<int32_t>& tokens) const {
    const int32_t n = static_cast<int32_t>(tokens.size());
    const int32_t dim = config.head_dim;
    std::vector<std::vector<double>> x(n);
    for (int32_t t = 0; t < n; ++t) x[t] = Row(matrices.at("embed"), tokens[t]);
    for (int32_t l = 0; l < config.layers; ++l) {
      const std::string p = Prefix(l);
      std::vector<std::vector<double>> q(n), k(n), v(n);
      for (int32_t t = 0; t < n; ++t) {
        const std::vector<double> h = NormRow(x[t], p + "attn_norm");
        q[t] = Times(p + "q", h);
        k[t] = Times(p + "k", h);
        v[t] = Times(p + "v", h);
        Rotate(&q[t], t);
        Rotate(&k[t], t);
        RoundToCache(&k[t]);
        RoundToCache(&v[t]);
      }
      for (int32_t t = 0; t < n; ++t) {
        std::vector<double> o(config.heads * dim, 0.0);
        const int32_t first = l % 2 == 1 ? std::max(0, t - config.window + 1) : 0;
        for (int32_t h = 0; h < config.heads; ++h) {
          const int32_t g = h / (config.heads / config.kv_heads);
          std::vector<double> e;
          double total = 0.0;
          for (int32_t s = first; s <= t; ++s) {
            double dot = 0.0;
            for (int32_t d = 0; d < dim; ++d) dot += q[t][h * dim + d] * k[s][g * dim + d];
            e.push_back(std::exp(dot / std::sqrt(dim)));
            total += e.back();
          }
          for (int32_t s = first; s <= t; ++s) {
            for (int32_t d = 0; d < dim; ++d)
              o[h * dim + d] += e[s - first] / total * v[s][g * dim + d];
          }
        }
        AddTo(&x[t], Times(p + "o", o));
        const std::vector<double> h = NormRow(x[t], p + "mlp_norm");
        std::vector<double> gate = Times(p + "gate", h);
        const std::vector<double> up = Times(p + "up", h);
        for (size_t i = 0; i < gate.size(); ++i)
          gate[i] = gate[i] / (1.0 + std::exp(-gate[i])) * up[i];
        AddTo(&x[t], Times(p + "down", gate));
      }
    }
    return Times("embed", NormRow(x.back(), "norm"));
  }

  TinyConfig config;
  engine::Manifest manifest;
  nlohmann::json plan;
  std::shared_ptr<MemoryWeights> weights = std::make_shared<MemoryWeights>();
  std::map<std::string, Matrix> matrices;  ///< By segment; vectors have one row.

 private:
  static std::string Prefix(int32_t layer) {
    std::string prefix(1, 'l');
    return prefix.append(std::to_string(layer)).append(".");
  }
  static double Round(double x, core::DType type) {
    const float f = static_cast<float>(x);
    if (type == core::DType::kF16) return core::F16ToFloat(core::FloatToF16(f));
    if (type == core::DType::kBF16) return core::Bf16ToFloat(core::FloatToBf16(f));
    return f;
  }
  /// A row of heads as the cache holds it.
  void RoundToCache(std::vector<double>* x) const {
    for (size_t head = 0; head < x->size(); head += config.head_dim) {
      double max = 0.0;
      for (int32_t d = 0; d < config.head_dim; ++d) max = std::max(max, std::fabs((*x)[head + d]));
      for (int32_t d = 0; d < config.head_dim; ++d) {
        double& e = (*x)[head + d];
        e = config.kv == core::DType::kInt8 ? std::nearbyint(e / (max / 127)) * (max / 127)
                                            : Round(e, config.kv);
      }
    }
  }
  static std::vector<double> Row(const Matrix& m, int32_t r) {
    return {m.at.begin() + r * m.cols, m.at.begin() + (r + 1) * m.cols};
  }
  static void AddTo(std::vector<double>* x, const std::vector<double>& y) {
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += y[i];
  }
  std::vector<double> Times(const std::string& name, const std::vector<double>& x) const {
    const Matrix& m = matrices.at(name);
    const auto bias = matrices.find(name + ".bias");
    std::vector<double> y(m.rows);
    for (int32_t r = 0; r < m.rows; ++r) {
      y[r] = bias == matrices.end() ? 0.0 : bias->second.at[r];
      for (int32_t c = 0; c < m.cols; ++c) y[r] += m.at[r * m.cols + c] * x[c];
    }
    return y;
  }
  std::vector<double> NormRow(const std::vector<double>& x, const std::string& gain) const {
    double squares = 0.0;
    for (double v : x) squares += v * v;
    std::vector<double> y(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = x[i] / std::sqrt(squares / x.size() + 1e-5) * matrices.at(gain).at[i];
    return y;
  }
  void Rotate(std::vector<double>* x, int32_t position) const {
    const int32_t half = config.rotary_dim / 2;
    for (size_t head = 0; head < x->size(); head += config.head_dim) {
      for (int32_t i = 0; i < half; ++i) {
        const double angle = position * matrices.at("inv_freq").at[i];
        const double a = (*x)[head + i];
        const double b = (*x)[head + half + i];
        (*x)[head + i] = a * std::cos(angle) - b * std::sin(angle);
        (*x)[head + half + i] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
  }

  static int32_t Pad(int32_t n) { return (n + 15) / 16 * 16; }

  void Draw(const std::string& name, int32_t rows, int32_t cols, double scale, double offset,
            core::DType type) {
    Matrix m{rows, cols, std::vector<double>(static_cast<size_t>(rows) * cols)};
    std::normal_distribution<double> normal(offset, scale);
    for (double& v : m.at) v = Round(normal(rng_), type);
    matrices[name] = std::move(m);
  }

  void StoreTensor(engine::Tensor tensor, std::vector<std::byte> bytes) {
    tensor.size = bytes.size();
    weights->tensors[tensor.name] = {tensor, std::move(bytes)};
  }

  void StoreVector(const std::string& name, const std::vector<double>& values) {
    std::vector<std::byte> bytes(values.size() * 4);
    for (size_t i = 0; i < values.size(); ++i) {
      const float f = static_cast<float>(values[i]);
      std::memcpy(&bytes[4 * i], &f, 4);
    }
    engine::Tensor tensor;
    tensor.name = name;
    tensor.format = "f32";
    tensor.layout = "row_major";
    tensor.logical_shape = {static_cast<int64_t>(values.size())};
    StoreTensor(std::move(tensor), std::move(bytes));
  }

  /// Packs segments into one n16k4 tensor, with their biases if they have any.
  void StoreMatrix(const std::string& name, const std::vector<std::string>& segments) {
    const int32_t cols = matrices[segments[0]].cols;
    int32_t rows = 0, packed_rows = 0;
    for (const std::string& s : segments) {
      rows += matrices[s].rows;
      packed_rows += Pad(matrices[s].rows);
    }
    std::vector<std::byte> packed(*pack::N16K4Bytes(config.weights, packed_rows, cols));
    std::vector<double> bias;
    int32_t at = 0;
    for (const std::string& s : segments) {
      const Matrix& m = matrices[s];
      std::vector<std::byte> plain(m.at.size() * core::DTypeSize(config.weights));
      for (size_t i = 0; i < m.at.size(); ++i) {
        const float f = static_cast<float>(m.at[i]);
        const uint16_t half =
            config.weights == core::DType::kF16 ? core::FloatToF16(f) : core::FloatToBf16(f);
        if (config.weights == core::DType::kF32) {
          std::memcpy(&plain[4 * i], &f, 4);
        } else {
          std::memcpy(&plain[2 * i], &half, 2);
        }
      }
      const Status status = pack::PackN16K4(config.weights, m.rows, cols, plain, at, packed);
      if (!status.ok()) std::abort();
      at += Pad(m.rows);
      if (matrices.count(s + ".bias") != 0) {
        const std::vector<double>& b = matrices[s + ".bias"].at;
        bias.insert(bias.end(), b.begin(), b.end());
        bias.resize(at, 0.0);
      }
    }
    engine::Tensor tensor;
    tensor.name = name;
    tensor.format = core::DTypeName(config.weights);
    tensor.layout = "n16k4";
    tensor.logical_shape = {rows, cols};
    StoreTensor(std::move(tensor), std::move(packed));
    if (!bias.empty()) StoreVector(name + ".bias", bias);
  }

  void MakeWeights() {
    const core::DType f32 = core::DType::kF32;
    const int32_t q = config.heads * config.head_dim, kv = config.kv_heads * config.head_dim;
    Draw("embed", config.vocab, config.hidden, 0.3, 0.0, config.weights);
    StoreMatrix("embed", {"embed"});
    Draw("norm", 1, config.hidden, 0.1, 1.0, f32);
    StoreVector("norm", matrices["norm"].at);
    Matrix freq{1, config.rotary_dim / 2, {}};
    for (int32_t i = 0; i < freq.cols; ++i)
      freq.at.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / config.rotary_dim)));
    matrices["inv_freq"] = freq;
    StoreVector("inv_freq", freq.at);
    for (int32_t l = 0; l < config.layers; ++l) {
      const std::string p = Prefix(l);
      for (const char* norm : {"attn_norm", "mlp_norm"}) {
        Draw(p + norm, 1, config.hidden, 0.1, 1.0, f32);
        StoreVector(p + norm, matrices[p + norm].at);
      }
      Draw(p + "q", q, config.hidden, 0.2, 0.0, config.weights);
      Draw(p + "k", kv, config.hidden, 0.2, 0.0, config.weights);
      Draw(p + "v", kv, config.hidden, 0.2, 0.0, config.weights);
      if (config.bias) {
        Draw(p + "q.bias", 1, q, 0.2, 0.0, f32);
        Draw(p + "k.bias", 1, kv, 0.2, 0.0, f32);
        Draw(p + "v.bias", 1, kv, 0.2, 0.0, f32);
      }
      Draw(p + "o", config.hidden, q, 0.2, 0.0, config.weights);
      Draw(p + "gate", config.mlp, config.hidden, 0.2, 0.0, config.weights);
      Draw(p + "up", config.mlp, config.hidden, 0.2, 0.0, config.weights);
      Draw(p + "down", config.hidden, config.mlp, 0.2, 0.0, config.weights);
      StoreMatrix(p + "qkv", {p + "q", p + "k", p + "v"});
      StoreMatrix(p + "o", {p + "o"});
      StoreMatrix(p + "gate_up", {p + "gate", p + "up"});
      StoreMatrix(p + "down", {p + "down"});
    }
  }

  void MakeManifest() {
    manifest.limits = {config.max_seq_len, config.max_outputs, config.max_tokens, config.vocab};
    manifest.numerics = "cpu-numerics/1";
    for (bool window : {false, true}) {
      engine::KvGroup group;
      group.kind = window ? "window" : "full";
      for (int32_t l = window ? 1 : 0; l < config.layers; l += 2) group.layers.push_back(l);
      group.dtype = core::DTypeName(config.kv);
      group.window = window ? config.window : 0;
      group.kv_heads = config.kv_heads;
      group.head_dim = config.head_dim;
      group.scale_granularity = core::KvScaleGranularity(config.kv);
      group.bytes_per_block =
          static_cast<int64_t>(group.layers.size()) * 2 * config.kv_heads * 32 *
          (config.head_dim * core::DTypeSize(config.kv) + core::KvScaleBytes(config.kv));
      manifest.kv_groups.push_back(group);
    }
    for (const auto& [name, entry] : weights->tensors) manifest.tensors.push_back(entry.first);
  }

  /// A new value in the memory of the first value of that name: the layers reuse each other's
  /// memory, as real plans do.
  int32_t Value(const std::string& name, int32_t cols, bool outputs = false) {
    const int64_t stride = Pad(cols);
    const int64_t bytes = (outputs ? config.max_outputs : config.max_tokens) * stride * 4;
    const auto [it, fresh] = offsets_.try_emplace(name, arena_);
    if (fresh) arena_ += (bytes + 63) / 64 * 64;
    plan["values"].push_back({{"name", name},
                              {"rows", outputs ? "outputs" : "tokens"},
                              {"cols", cols},
                              {"stride", stride},
                              {"offset", it->second}});
    return static_cast<int32_t>(plan["values"].size()) - 1;
  }
  void Step(const std::string& op, std::vector<int32_t> in, std::vector<int32_t> out,
            nlohmann::json w, nlohmann::json attrs = nlohmann::json::object()) {
    plan["steps"].push_back({{"op", op},
                             {"inputs", in},
                             {"outputs", out},
                             {"weights", std::move(w)},
                             {"attrs", std::move(attrs)}});
  }

  void MakePlan() {
    using nlohmann::json;
    const int32_t hidden = config.hidden, q_cols = config.heads * config.head_dim;
    const int32_t kv_cols = config.kv_heads * config.head_dim;
    const int32_t k_col = Pad(q_cols), v_col = k_col + Pad(kv_cols),
                  qkv_cols = v_col + Pad(kv_cols);
    plan = {{"version", 1},
            {"numerics", "cpu-numerics/1"},
            {"values", json::array()},
            {"steps", json::array()}};
    // Padding columns of the MLP are zero: silu(0) * 0. The next matrix has `mlp` columns and does
    // not read them.
    const int32_t mlp_cols = Pad(config.mlp);
    int32_t x = Value("x", hidden);
    const int32_t cos = Value("cos", config.rotary_dim / 2),
                  sin = Value("sin", config.rotary_dim / 2);
    Step("embedding", {}, {x}, {{"table", "embed"}});
    Step("rope_table", {}, {cos, sin}, {{"inv_freq", "inv_freq"}}, {{"attention_factor", 1.0}});
    int32_t delta = -1;
    for (int32_t l = 0; l < config.layers; ++l) {
      const std::string p = Prefix(l);
      const int32_t h = Value("h", hidden);
      if (l == 0) {
        Step("rms_norm", {x}, {h}, {{"gain", p + "attn_norm"}}, {{"eps", 1e-5}});
      } else {
        const int32_t sum = Value(l % 2 == 0 ? "x" : "x2", hidden);
        Step("add_rms_norm", {x, delta}, {sum, h}, {{"gain", p + "attn_norm"}}, {{"eps", 1e-5}});
        x = sum;
      }
      const int32_t qkv = Value("qkv", qkv_cols), q = Value("q", q_cols), o = Value("o", q_cols);
      json qkv_weights = {{"w", p + "qkv"}};
      if (config.bias) qkv_weights["bias"] = p + "qkv.bias";
      Step("linear", {h}, {qkv}, qkv_weights);
      const json cache = {{"group", l % 2},
                          {"layer", l / 2},
                          {"heads", config.heads},
                          {"kv_heads", config.kv_heads},
                          {"head_dim", config.head_dim}};
      json write = cache;
      write.update(
          {{"rotary_dim", config.rotary_dim}, {"q_col", 0}, {"k_col", k_col}, {"v_col", v_col}});
      Step("rope_kv_write", {qkv, cos, sin}, {q}, json::object(), write);
      json attend = cache;
      attend["scale"] = 1.0 / std::sqrt(static_cast<double>(config.head_dim));
      Step("attention", {q}, {o}, json::object(), attend);
      const int32_t attn = Value("attn", Pad(hidden));
      Step("linear", {o}, {attn}, {{"w", p + "o"}});
      const int32_t sum = Value(l % 2 == 0 ? "x3" : "x4", hidden), h2 = Value("h", hidden);
      Step("add_rms_norm", {x, attn}, {sum, h2}, {{"gain", p + "mlp_norm"}}, {{"eps", 1e-5}});
      x = sum;
      const int32_t act = Value("act", mlp_cols);
      Step("linear_glu", {h2}, {act}, {{"w", p + "gate_up"}},
           {{"activation", "silu"}, {"gate_row", 0}, {"up_row", Pad(config.mlp)}});
      delta = Value("delta", Pad(hidden));
      Step("linear", {act}, {delta}, {{"w", p + "down"}});
    }
    const int32_t last = Value("x5", hidden), picked = Value("picked", hidden, true);
    const int32_t normed = Value("normed", hidden, true),
                  logits = Value("logits", Pad(config.vocab), true);
    Step("add", {x, delta}, {last}, json::object());
    Step("select_rows", {last}, {picked}, json::object());
    Step("rms_norm", {picked}, {normed}, {{"gain", "norm"}}, {{"eps", 1e-5}});
    Step("linear", {normed}, {logits}, {{"w", "embed"}});
    plan["results"] = {{"logits", logits}, {"hidden", normed}};
    plan["arena_bytes"] = arena_;
    plan["max_tokens"] = config.max_tokens;
    plan["max_outputs"] = config.max_outputs;
  }
  std::mt19937 rng_;
  std::map<std::string, int64_t> offsets_;
  int64_t arena_ = 0;
};

}  // namespace slipstream::exec
