// Measures the error of quantization by type: compares the encoders of this library with a file of
// another quantizer, or two files. The same reader decodes both.
//
//   quantize_error F16.gguf THEIRS.gguf [OURS.gguf] [--imatrix FILE.dat]
//   quantize_error --noise normal|laplace F16.gguf NOISE.gguf     the same tensors filled with
//   random weights
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/simd/round.h"
#include "model/gguf/gguf.h"

namespace {

using namespace cria;

using Importance = std::map<std::string, std::vector<float>, std::less<>>;

template <class T>
T read(std::istream& in) {
  T value{};
  in.read(reinterpret_cast<char*>(&value), sizeof value);
  return value;
}

/// The older form: a count, then for each tensor its name, the number of calls, and
/// sums of squared activations.
Importance read_importance(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Importance result;
  for (int n = read<std::int32_t>(in); n > 0 && in; --n) {
    std::string name(static_cast<std::size_t>(read<std::int32_t>(in)), '\0');
    in.read(name.data(), static_cast<std::streamsize>(name.size()));
    read<std::int32_t>(in);
    std::vector<float> sums(static_cast<std::size_t>(read<std::int32_t>(in)));
    in.read(reinterpret_cast<char*>(sums.data()),
            static_cast<std::streamsize>(sums.size() * sizeof(float)));
    result.emplace(std::move(name), std::move(sums));
  }
  if (!in) throw std::runtime_error(path + ": not an importance matrix of the older form");
  return result;
}

struct Sums {
  double ours = 0, theirs = 0, squares = 0;
  std::size_t tensors = 0, values = 0;
};

std::vector<float> values(const TensorView& tensor) {
  std::vector<float> out(tensor.cols() * tensor.rows());
  dtype_info(tensor.dtype).dequantize_rows(tensor.data, out.data(), tensor.rows(), tensor.cols());
  return out;
}

/// The source's values as the library's encoder of a type gives them back.
std::vector<float> encoded(const std::vector<float>& x, std::size_t cols, DType type,
                           const float* importance) {
  const DTypeInfo& info = dtype_info(type);
  const EncodeFn encode = active_kernels()->encode(type);
  if (encode == nullptr) return {};
  std::vector<float> out(x.size());
  std::vector<std::byte> row(info.row_bytes(cols));
  for (std::size_t r = 0; r < x.size() / cols; ++r) {
    encode(x.data() + r * cols, importance, cols, row.data());
    info.dequantize(row.data(), out.data() + r * cols, cols);
  }
  return out;
}

void compare(const GgufFile& source, const GgufFile& theirs, const GgufFile* ours,
             const Importance& importance) {
  std::map<std::string_view, Sums> table;
  for (const TensorView& original : source.tensors()) {
    const TensorView* their = theirs.tensor(original.name);
    if (their == nullptr || their->shape != original.shape || their->dtype == original.dtype)
      continue;
    const std::size_t cols = original.cols();
    const auto found = importance.find(original.name);
    const float* weights =
        found != importance.end() && found->second.size() == cols ? found->second.data() : nullptr;
    const TensorView* our = ours == nullptr ? nullptr : ours->tensor(original.name);
    if (ours != nullptr && (our == nullptr || our->dtype != their->dtype)) continue;
    const std::vector<float> x = values(original), b = values(*their),
                             a = our != nullptr ? values(*our)
                                                : encoded(x, cols, their->dtype, weights);
    if (a.size() != x.size()) continue;
    Sums& sums = table[name(their->dtype)];
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double w = weights == nullptr ? 1 : weights[i % cols];
      const double e = static_cast<double>(a[i]) - x[i], f = static_cast<double>(b[i]) - x[i];
      sums.ours += w * e * e;
      sums.theirs += w * f * f;
      sums.squares += w * x[i] * x[i];
    }
    ++sums.tensors;
    sums.values += x.size();
  }
  std::printf("%-8s %8s %12s %14s %14s %8s\n", "type", "tensors", "values", "ours", "theirs",
              "ratio");
  for (const auto& [type, s] : table)
    std::printf("%-8s %8zu %12zu %14.6e %14.6e %8.4f\n", std::string(type).c_str(), s.tensors,
                s.values, std::sqrt(s.ours / s.squares), std::sqrt(s.theirs / s.squares),
                std::sqrt(s.ours / s.theirs));
}

/// A copy of a file whose F16 and F32 matrices hold random weights, deviation 0.02.
void write_noise(const std::string& distribution, const std::string& from, const std::string& to) {
  const GgufFile source = GgufFile::open(from);
  std::ifstream in(from, std::ios::binary);
  std::string bytes(source.file_bytes(), '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02F);
  std::exponential_distribution<float> exponential(std::sqrt(2.0F) / 0.02F);
  const auto draw = [&] {
    return distribution == "normal" ? normal(random)
                                    : exponential(random) * ((random() & 1) != 0 ? 1.0F : -1.0F);
  };
  // Tensor data end the file, so the distance to the last tensor's end gives a place in it.
  const std::byte* end = nullptr;
  for (const TensorView& tensor : source.tensors()) end = std::max(end, tensor.data + tensor.bytes);
  const std::size_t tail = bytes.size();
  const std::byte* first = source.tensors().front().data;
  for (const TensorView& tensor : source.tensors()) first = std::min(first, tensor.data);
  const std::size_t padding =
      (source.alignment() - static_cast<std::size_t>(end - first) % source.alignment()) %
      source.alignment();
  const std::size_t data_begin = tail - static_cast<std::size_t>(end - first);
  const std::size_t base = data_begin % source.alignment() == 0 ? data_begin : data_begin - padding;
  for (const TensorView& tensor : source.tensors()) {
    if (tensor.shape.size() < 2) continue;
    char* at = bytes.data() + base + (tensor.data - first);
    for (std::size_t i = 0; i < tensor.cols() * tensor.rows(); ++i) {
      const float x = draw();
      if (tensor.dtype == DType::F16) {
        const std::uint16_t half = f32_to_f16(x);
        std::memcpy(at + 2 * i, &half, 2);
      } else if (tensor.dtype == DType::F32) {
        std::memcpy(at + 4 * i, &x, 4);
      }
    }
  }
  std::ofstream(to, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int run(std::vector<std::string> args) {
  if (args.size() == 4 && args[0] == "--noise") return write_noise(args[1], args[2], args[3]), 0;
  Importance importance;
  if (args.size() >= 2 && args[args.size() - 2] == "--imatrix") {
    importance = read_importance(args.back());
    args.resize(args.size() - 2);
  }
  if (args.size() != 2 && args.size() != 3) {
    std::cerr << "usage: quantize_error SOURCE.gguf THEIRS.gguf [OURS.gguf] [--imatrix FILE.dat]\n"
                 "       quantize_error --noise normal|laplace SOURCE.gguf NOISE.gguf\n";
    return 2;
  }
  const GgufFile source = GgufFile::open(args[0]), theirs = GgufFile::open(args[1]);
  if (args.size() == 3) {
    const GgufFile ours = GgufFile::open(args[2]);
    compare(source, theirs, &ours, importance);
  } else {
    compare(source, theirs, nullptr, importance);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run({argv + 1, argv + argc});
} catch (const std::exception& e) {
  std::cerr << "quantize_error: " << e.what() << '\n';
  return 1;
}
