// A program written for libtorch: its header and namespace names lead to Facula.
#include <torch/torch.h>

#include <cstdio>

int main() {
  torch::manual_seed(7);
  torch::Tensor a = torch::rand({4, 5});
  at::Tensor b = at::ones({4, 5}, torch::TensorOptions().dtype(torch::kFloat32));
  a.add_(b);
  const bool inside = torch::logical_and(a.ge(1), a.lt(2)).all().item<bool>();
  const bool same = torch::allclose(a.t().matmul(b), torch::mm(a.transpose(0, 1), b));
  if (!inside || !same || a.sizes() != c10::IntArrayRef({4, 5})) {
    std::printf("wrong values\n");
    return 1;
  }
  std::printf("the torch names work\n");
  return 0;
}
