// libFuzzer entry: any bytes either open and read, or throw Error.
#include "model/config.h"
#include "model/vocabulary.h"
#include "model/weights.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto file = cria::GgufFile::from_bytes(std::as_bytes(std::span(data, size)), "fuzz",
                                                 {.metadata_only = size % 2 == 1});
    cria::LlamaWeights::from_gguf(file, cria::LlamaConfig::from_gguf(file));
    cria::Vocabulary::from_gguf(file);
  } catch (const cria::Error&) {
  }
  return 0;
}
