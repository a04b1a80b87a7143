// Two operators for ONNX Runtime in the domain test.customop:
//
//   CustomOpOne(float X, float Y) -> float   X + Y, element by element; both of one shape
//   CustomOpTwo(float X) -> int32            X rounded to the nearest integer, halves to the even one (as torch.round);
//                                            beyond the range of int32 the nearest end of it, and 0 for NaN
//
// A custom-op library is a shared library that exports RegisterCustomOps.  ONNX Runtime's packages bring no headers, so
// the little of its C interface that is needed is declared here, after onnxruntime_c_api.h: a table of functions, which
// only ever grows at its end, and the record of callbacks that describes an operator.  Build it with build.py, or with
//
//   c++ -std=c++17 -O2 -fPIC -shared custom_ops.cc -o custom_ops.so

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

// The version of the interface that is asked for: that of ONNX Runtime 1.17, which every later one still serves.
constexpr uint32_t kVersion = 17;

struct Status;          // an error, or null where all went well
struct SessionOptions;  // the rest are ONNX Runtime's own, and only passed on
struct Domain;
struct KernelInfo;
struct KernelContext;
struct Value;
struct Shape;

enum ElementType { kFloat = 1, kInt32 = 6 };
enum ErrorCode { kInvalidArgument = 2 };
enum Characteristic { kRequired = 0 };
enum MemoryType { kDefault = 0 };

struct Api {
  void (*functions[100])();
};

struct ApiBase {
  const Api* (*get_api)(uint32_t version);
  const char* (*get_version)();
};

// A function of the table by its place in it.
template <typename Result, typename... Arguments>
auto at(const Api* api, int place) {
  return reinterpret_cast<Result (*)(Arguments...)>(api->functions[place]);
}

Status* make_status(const Api* api, const char* message) {
  return at<Status*, ErrorCode, const char*>(api, 0)(kInvalidArgument, message);
}

// What describes an operator.  The order of the members is that of OrtCustomOp up to version 17 of the interface.
struct CustomOp {
  uint32_t version = kVersion;
  void* (*create_kernel)(const CustomOp*, const Api*, const KernelInfo*) = nullptr;  // replaced by create_kernel_v2
  const char* (*get_name)(const CustomOp*) = nullptr;
  const char* (*get_provider)(const CustomOp*) = [](const CustomOp*) -> const char* { return nullptr; };  // the CPU
  ElementType (*get_input_type)(const CustomOp*, size_t) = nullptr;
  size_t (*count_inputs)(const CustomOp*) = nullptr;
  ElementType (*get_output_type)(const CustomOp*, size_t) = nullptr;
  size_t (*count_outputs)(const CustomOp*) = [](const CustomOp*) -> size_t { return 1; };
  void (*compute)(void*, KernelContext*) = nullptr;  // replaced by compute_v2, which can fail in order
  void (*destroy)(void*) = [](void*) {};
  // ONNX Runtime calls the following seven of every operator, also of those that have nothing to say.
  Characteristic (*get_input_characteristic)(const CustomOp*, size_t) = [](const CustomOp*, size_t) { return kRequired; };
  Characteristic (*get_output_characteristic)(const CustomOp*, size_t) = [](const CustomOp*, size_t) { return kRequired; };
  MemoryType (*get_input_memory)(const CustomOp*, size_t) = [](const CustomOp*, size_t) { return kDefault; };
  int (*variadic_input_arity)(const CustomOp*) = [](const CustomOp*) { return 0; };
  int (*variadic_input_homogeneity)(const CustomOp*) = [](const CustomOp*) { return 0; };
  int (*variadic_output_arity)(const CustomOp*) = [](const CustomOp*) { return 0; };
  int (*variadic_output_homogeneity)(const CustomOp*) = [](const CustomOp*) { return 0; };
  // The kernel needs no state but the table of functions.
  Status* (*create_kernel_v2)(const CustomOp*, const Api*, const KernelInfo*, void**) =
      [](const CustomOp*, const Api* api, const KernelInfo*, void** kernel) -> Status* {
    *kernel = const_cast<Api*>(api);
    return nullptr;
  };
  Status* (*compute_v2)(void*, KernelContext*) = nullptr;
  Status* (*infer_shape)(const CustomOp*, void*) = nullptr;
  int (*get_start_version)(const CustomOp*) = [](const CustomOp*) { return 1; };
  int (*get_end_version)(const CustomOp*) = [](const CustomOp*) { return std::numeric_limits<int>::max(); };
  void* unused[4] = {};  // hints on memory that inputs and outputs may share
};

// The inputs and outputs of one call.  The first error is kept, and nothing is done after it.
class Call {
 public:
  Call(void* kernel, KernelContext* context) : api_(static_cast<const Api*>(kernel)), context_(context) {}

  const float* input(size_t place, std::vector<int64_t>* shape) {
    const Value* value = nullptr;
    check(at<Status*, const KernelContext*, size_t, const Value**>(api_, 90)(context_, place, &value));
    Shape* info = nullptr;
    if (!status) check(at<Status*, const Value*, Shape**>(api_, 65)(value, &info));
    size_t rank = 0;
    if (!status) check(at<Status*, const Shape*, size_t*>(api_, 61)(info, &rank));
    shape->resize(rank);
    if (!status) check(at<Status*, const Shape*, int64_t*, size_t>(api_, 62)(info, shape->data(), rank));
    if (info) at<void, Shape*>(api_, 99)(info);
    return status ? nullptr : static_cast<const float*>(data(const_cast<Value*>(value)));
  }

  void* output(const std::vector<int64_t>& shape) {
    Value* value = nullptr;
    check(at<Status*, KernelContext*, size_t, const int64_t*, size_t, Value**>(api_, 91)(context_, 0, shape.data(),
                                                                                         shape.size(), &value));
    return status ? nullptr : data(value);
  }

  void fail(const char* message) { check(make_status(api_, message)); }

  Status* status = nullptr;

 private:
  void check(Status* found) {
    if (!status) status = found;
  }

  void* data(Value* value) {
    void* found = nullptr;
    check(at<Status*, Value*, void**>(api_, 51)(value, &found));
    return found;
  }

  const Api* api_;
  KernelContext* context_;
};

size_t count(const std::vector<int64_t>& shape) {
  size_t found = 1;
  for (int64_t size : shape) found *= static_cast<size_t>(size);
  return found;
}

Status* add(void* kernel, KernelContext* context) {
  Call call(kernel, context);
  std::vector<int64_t> shape, other;
  const float* x = call.input(0, &shape);
  const float* y = call.status ? nullptr : call.input(1, &other);
  if (!call.status && shape != other) call.fail("CustomOpOne does not broadcast: give it two tensors of one shape.");
  auto* sum = call.status ? nullptr : static_cast<float*>(call.output(shape));
  if (call.status) return call.status;
  for (size_t place = 0, end = count(shape); place < end; ++place) sum[place] = x[place] + y[place];
  return nullptr;
}

int32_t to_int32(float rounded) {
  if (std::isnan(rounded)) return 0;
  if (rounded < -2147483648.0f) return std::numeric_limits<int32_t>::min();
  if (rounded >= 2147483648.0f) return std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(rounded);
}

Status* round(void* kernel, KernelContext* context) {
  Call call(kernel, context);
  std::vector<int64_t> shape;
  const float* x = call.input(0, &shape);
  auto* rounded = call.status ? nullptr : static_cast<int32_t*>(call.output(shape));
  if (call.status) return call.status;
  for (size_t place = 0, end = count(shape); place < end; ++place) rounded[place] = to_int32(std::nearbyint(x[place]));
  return nullptr;
}

const CustomOp* custom_op_one() {
  static const CustomOp op = [] {
    CustomOp made;
    made.get_name = [](const CustomOp*) { return "CustomOpOne"; };
    made.get_input_type = [](const CustomOp*, size_t) { return kFloat; };
    made.count_inputs = [](const CustomOp*) -> size_t { return 2; };
    made.get_output_type = [](const CustomOp*, size_t) { return kFloat; };
    made.compute_v2 = add;
    return made;
  }();
  return &op;
}

const CustomOp* custom_op_two() {
  static const CustomOp op = [] {
    CustomOp made;
    made.get_name = [](const CustomOp*) { return "CustomOpTwo"; };
    made.get_input_type = [](const CustomOp*, size_t) { return kFloat; };
    made.count_inputs = [](const CustomOp*) -> size_t { return 1; };
    made.get_output_type = [](const CustomOp*, size_t) { return kInt32; };
    made.compute_v2 = round;
    return made;
  }();
  return &op;
}

// The domain lives as long as the library: sessions that use it may end in any order.
Status* make_domain(const Api* api, Domain** domain) {
  Status* status = at<Status*, const char*, Domain**>(api, 26)("test.customop", domain);
  for (const CustomOp* op : {custom_op_one(), custom_op_two()}) {
    if (!status) status = at<Status*, Domain*, const CustomOp*>(api, 27)(*domain, op);
  }
  return status;
}

}  // namespace

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

extern "C" EXPORTED Status* RegisterCustomOps(SessionOptions* options, const ApiBase* base) {
  const Api* api = base->get_api(kVersion);
  if (!api) return nullptr;  // older than this library; the session will say that it does not know the operators
  static Domain* domain = nullptr;
  static Status* status = make_domain(api, &domain);
  return status ? status : at<Status*, SessionOptions*, Domain*>(api, 28)(options, domain);
}
