// Models for the cases that take gradients: what a user of either library would write.
#pragma once

#include <string>
#include <vector>

#include "inputs.h"
#include "library.h"

inline lib::Tensor parameter(const Sizes& sizes, uint32_t seed, float scale) {
  return input(sizes, lib::kFloat32, seed, scale).requires_grad_(true);
}

inline void forget_gradients(const std::vector<lib::Tensor>& parameters) {
  for (const lib::Tensor& p : parameters) p.mutable_grad() = lib::Tensor();
}

// Eight pointwise operations in a row.
inline lib::Tensor chain_of_eight(const lib::Tensor& x, const lib::Tensor& w) {
  return lib::square(lib::sin(lib::exp(lib::tanh(lib::sigmoid(x * w) + w) * 1.5)));
}

// Eight layers of 64.
struct Mlp {
  std::vector<lib::Tensor> weights, biases, all;

  Mlp() {
    for (uint32_t i = 0; i < 8; ++i) {
      weights.push_back(parameter({64, 64}, 10 + i, 0.2f));
      biases.push_back(parameter({64}, 30 + i, 0.1f));
      all.push_back(weights.back());
      all.push_back(biases.back());
    }
  }
  lib::Tensor loss(lib::Tensor x) const {
    for (size_t i = 0; i < weights.size(); ++i) x = lib::relu(lib::linear(x, weights[i], biases[i]));
    return x.sum();
  }
};

// Four layers of a transformer with attention written out.
struct Transformer {
  static constexpr int64_t kBatch = 4, kTime = 128, kWidth = 256, kHeads = 8, kLayers = 4;
  struct Layer {
    lib::Tensor norm1_weight, norm1_bias, qkv_weight, qkv_bias, out_weight, out_bias;
    lib::Tensor norm2_weight, norm2_bias, up_weight, up_bias, down_weight, down_bias;
  };
  std::vector<Layer> layers;
  std::vector<lib::Tensor> all;

  Transformer() {
    uint32_t seed = 100;
    const auto make = [&](const Sizes& sizes, float scale) {
      all.push_back(parameter(sizes, seed++, scale));
      return all.back();
    };
    constexpr int64_t w = kWidth;
    for (int64_t i = 0; i < kLayers; ++i) {
      Layer layer;
      layer.norm1_weight = make({w}, 1.0f);
      layer.norm1_bias = make({w}, 0.1f);
      layer.qkv_weight = make({3 * w, w}, 0.08f);
      layer.qkv_bias = make({3 * w}, 0.1f);
      layer.out_weight = make({w, w}, 0.08f);
      layer.out_bias = make({w}, 0.1f);
      layer.norm2_weight = make({w}, 1.0f);
      layer.norm2_bias = make({w}, 0.1f);
      layer.up_weight = make({4 * w, w}, 0.08f);
      layer.up_bias = make({4 * w}, 0.1f);
      layer.down_weight = make({w, 4 * w}, 0.04f);
      layer.down_bias = make({w}, 0.1f);
      layers.push_back(layer);
    }
  }

  static lib::Tensor heads(const lib::Tensor& x) {
    return x.reshape({kBatch, kTime, kHeads, kWidth / kHeads}).transpose(1, 2);
  }
  static lib::Tensor attention(const lib::Tensor& x, const Layer& layer) {
    const auto parts = lib::linear(x, layer.qkv_weight, layer.qkv_bias).chunk(3, -1);
    const lib::Tensor q = heads(parts[0]), k = heads(parts[1]), v = heads(parts[2]);
    const lib::Tensor scores = lib::softmax(lib::matmul(q, k.transpose(-2, -1)) * 0.17677669529663687, -1);
    const lib::Tensor mixed = lib::matmul(scores, v).transpose(1, 2).reshape({kBatch, kTime, kWidth});
    return lib::linear(mixed, layer.out_weight, layer.out_bias);
  }
  lib::Tensor loss(lib::Tensor x) const {
    for (const Layer& layer : layers) {
      x = x + attention(lib::layer_norm(x, {kWidth}, layer.norm1_weight, layer.norm1_bias), layer);
      const lib::Tensor h = lib::layer_norm(x, {kWidth}, layer.norm2_weight, layer.norm2_bias);
      x = x +
          lib::linear(lib::gelu(lib::linear(h, layer.up_weight, layer.up_bias)), layer.down_weight, layer.down_bias);
    }
    return (x * x).mean();
  }
};
