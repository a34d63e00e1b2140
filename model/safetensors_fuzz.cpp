// libFuzzer entry: any bytes either open as safetensors, or throw Error.
#include <cstdlib>

#include "model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = cria::SafetensorsFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz");
    std::size_t bytes = 0;
    for (const cria::SafeTensor& tensor : file.tensors()) bytes += tensor.data.size();
    if (bytes > size) std::abort();
  } catch (const cria::Error&) {
  }
  return 0;
}
