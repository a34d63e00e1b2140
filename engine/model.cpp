#include <string>

#include "engine/graph.h"
#include "engine/session.h"

namespace cria {
namespace {

const KernelSet& kernels_in_use() {
  if (const KernelSet* const active = active_kernels()) return *active;
  std::string names;
  for (const KernelSet* set : available_kernels())
    names += (names.empty() ? "" : ", ") + std::string(set->isa);
  throw Error("CRIA_ISA names no instruction set that can run here: expected one of " + names);
}

}  // namespace

std::shared_ptr<const Model> Model::load(const std::string& path, const GgufOptions& options,
                                         std::string_view pre) {
  const std::shared_ptr<Model> model(new Model(GgufFile::open(path, options)));
  model->pinned_ = options.mlock || options.map == MapMode::Read;
  model->config_ = LlamaConfig::from_gguf(model->file_);
  model->weights_ = LlamaWeights::from_gguf(model->file_, model->config_);
  model->vocabulary_ = Vocabulary::from_gguf(model->file_);
  if (!pre.empty()) model->vocabulary_.pre = pre;
  try {
    model->tokenizer_ = Tokenizer::create(model->vocabulary_);
  } catch (const Error& error) {
    model->no_tokenizer_ = Error(path, error.what());
  }
  model->graph_ = Graph::build(model->config_, model->weights_, kernels_in_use());
  return model;
}

const Tokenizer& Model::tokenizer() const {
  if (no_tokenizer_) throw Error(*no_tokenizer_);
  return *tokenizer_;
}

}  // namespace cria
