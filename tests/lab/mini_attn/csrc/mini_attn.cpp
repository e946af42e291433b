// The binding: checks what it is given, and leaves the rest to the kernel.
#include <torch/csrc/utils/pybind.h>

at::Tensor attention_cuda(at::Tensor q, at::Tensor k, at::Tensor v, double scale);

at::Tensor attention(at::Tensor q, at::Tensor k, at::Tensor v, double scale) {
  for (const auto& tensor : {q, k, v}) {
    TORCH_CHECK(tensor.is_cuda(), "mini-attn: tensors must be on a GPU");
    TORCH_CHECK(tensor.scalar_type() == at::kHalf, "mini-attn: tensors must be float16");
    TORCH_CHECK(tensor.dim() == 4 && tensor.is_contiguous(), "mini-attn: tensors must be (batch, length, heads, size)");
  }
  TORCH_CHECK(k.sizes() == v.sizes() && q.size(0) == k.size(0) && q.size(2) == k.size(2) && q.size(3) == k.size(3),
              "mini-attn: sizes differ");
  return attention_cuda(q, k, v, scale);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("attention", &attention); }
