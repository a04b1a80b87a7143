// 2 * a + b for torch, twice: as a function of a Python module (pybind11), and as an operator of torch (TORCH_LIBRARY).

#include <ATen/core/Tensor.h>
#include <ATen/ops/add.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

at::Tensor my_add(const at::Tensor& a, const at::Tensor& b) { return at::add(b, a, 2); }

TORCH_LIBRARY(mylib, m) { m.def("my_add(Tensor a, Tensor b) -> Tensor", &my_add); }

PYBIND11_MODULE(my_add, m) { m.def("my_add", &my_add); }
