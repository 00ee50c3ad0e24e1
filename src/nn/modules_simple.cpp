// What is written by hand of modules that are a table or nothing at all: Identity, Embedding.
#include "nn/described.h"

#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/generated/modules.h>
#include <facula/nn/init.h>

namespace facula::nn {

Tensor IdentityImpl::forward(const Tensor& input) { return input; }

void EmbeddingImpl::reset() {
  const int64_t rows = options.num_embeddings();
  if (options.padding_idx()) {
    int64_t& padding = *options.padding_idx();
    FACULA_CHECK(padding >= -rows && padding < rows, ValueError, "Embedding: padding_idx ", padding,
                 " must be within num_embeddings, which is ", rows);
    if (padding < 0) padding += rows;
  }
  const Tensor& ready = options.weight();
  if (!ready.defined()) {
    weight = register_parameter("weight", facula::empty({rows, options.embedding_dim()}));
    reset_parameters();
    return;
  }
  FACULA_CHECK(ready.sizes() == IntArrayRef({rows, options.embedding_dim()}), ShapeError,
               "Embedding: the weight of shape ", to_text(ready.sizes()), " does not match num_embeddings=", rows,
               " and embedding_dim=", options.embedding_dim());
  weight = register_parameter("weight", own_handle(ready), /*requires_grad=*/!options.freeze());
}

void EmbeddingImpl::reset_parameters() {
  const NoGradGuard quiet;
  init::normal_(weight);
  if (options.padding_idx()) weight.select(0, *options.padding_idx()).fill_(0);
}

Embedding Embedding::from_pretrained(const Tensor& embeddings, const EmbeddingFromPretrainedOptions& options) {
  FACULA_CHECK(embeddings.defined() && embeddings.dim() == 2, ShapeError,
               "Embedding::from_pretrained: Embeddings parameter is expected to be 2-dimensional, got ",
               embeddings.defined() ? embeddings.dim() : 0);
  return Embedding(EmbeddingOptions(embeddings.size(0), embeddings.size(1))
                       .weight(embeddings)
                       .freeze(options.freeze())
                       .padding_idx(options.padding_idx())
                       .max_norm(options.max_norm())
                       .norm_type(options.norm_type())
                       .scale_grad_by_freq(options.scale_grad_by_freq())
                       .sparse(options.sparse()));
}

}  // namespace facula::nn
