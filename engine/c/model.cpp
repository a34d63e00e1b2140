// The C interface: models, tokens, chat templates.
#include "engine/c/objects.h"
#include "engine/model_parts.h"
#include "tokenizer/jinja/values/text.h"

namespace cria::c_api {

std::shared_ptr<const ChatTemplate> ModelObject::chat_template() {
  const std::scoped_lock lock(mutex_);
  if (!template_)
    template_ =
        std::make_shared<const ChatTemplate>(ChatTemplate::from_vocabulary(model->vocabulary()));
  return template_;
}

std::vector<ChatMessage> conversation(const cria_message* messages, std::size_t n) {
  std::vector<ChatMessage> out;
  for (const cria_message& message : array(messages, n, "messages")) {
    if (message.json == nullptr) required(message.content, "a message's content");
    out.push_back({&required(message.role, "a message's role"),
                   message.content == nullptr ? "" : message.content,
                   message.json == nullptr ? "" : message.json});
  }
  return out;
}

namespace {

LoadOptions load_options(const cria_model_options& given) {
  LoadOptions options;
  options.mmap = given.no_mmap == 0;
  options.mlock = given.mlock != 0;
  const std::span paths = array(given.loras, given.n_loras, "loras");
  for (std::size_t i = 0; i < paths.size(); ++i)
    options.loras.push_back({&required(paths[i], "path of an adapter"),
                             given.lora_scales == nullptr ? 1 : given.lora_scales[i]});
  return options;
}

RenderOptions render_options(const char* variables) {
  RenderOptions options;
  if (variables != nullptr) options.variables = variables;
  return options;
}

void check_flags(std::uint32_t flags, std::uint32_t known) {
  if ((flags & ~known) != 0) throw Failure(CRIA_ERROR_ARGUMENT, "unknown flag");
}

}  // namespace
}  // namespace cria::c_api

using namespace cria::c_api;

cria_status cria_model_load(const char* path, const cria_model_options* options,
                            cria_model* model) {
  return call([&] {
    required(model, "model").id = 0;
    const cria_model_options given = taken(options);
    model->id = handle(std::make_shared<ModelObject>(
        cria::Model::load(&required(path, "path"), load_options(given))));
  });
}

cria_status cria_model_free(cria_model model) {
  return call([&] { removed<ModelObject>(model.id); });
}

cria_status cria_model_get_info(cria_model model, cria_model_info* info) {
  return call([&] {
    const auto object_of = object<ModelObject>(model.id);
    const cria::Model& of = *object_of->model;
    cria_model_info out{};
    out.path = of.path().c_str();
    out.name = of.name().c_str();
    out.n_vocab = of.vocabulary_size();
    out.n_ctx = of.context_length();
    out.n_embd = of.config().n_embd;
    out.has_chat_template = of.vocabulary().chat_template.empty() ? 0 : 1;
    out.bos = of.vocabulary().bos.value_or(-1);
    out.eos = of.vocabulary().eos.value_or(-1);
    give(info, out, "info");
  });
}

cria_status cria_tokenize(cria_model model, const char* text, size_t text_size, uint32_t flags,
                          cria_token* tokens, size_t capacity, size_t* count) {
  return call([&] {
    check_flags(flags, CRIA_SPECIAL | CRIA_MARKERS);
    const auto of = object<ModelObject>(model.id);
    const std::string_view bytes = cria::c_api::text(text, text_size, "text");
    give_array(of->model->tokenizer().encode(bytes, (flags & CRIA_SPECIAL) != 0,
                                             (flags & CRIA_MARKERS) != 0),
               tokens, capacity, count);
  });
}

cria_status cria_detokenize(cria_model model, const cria_token* tokens, size_t n_tokens,
                            uint32_t flags, char* text, size_t capacity, size_t* count) {
  return call([&] {
    check_flags(flags, CRIA_SPECIAL);
    const auto of = object<ModelObject>(model.id);
    give_array(of->model->tokenizer().decode(array(tokens, n_tokens, "tokens"),
                                             (flags & CRIA_SPECIAL) != 0),
               text, capacity, count);
  });
}

cria_status cria_apply_template(cria_model model, const cria_message* messages, size_t n_messages,
                                const char* variables, char* text, size_t capacity, size_t* count) {
  return call([&] {
    const auto of = object<ModelObject>(model.id);
    give_array(of->chat_template()
                   ->render(conversation(messages, n_messages), render_options(variables))
                   .bytes(),
               text, capacity, count);
  });
}

cria_status cria_template_tokens(cria_model model, const cria_message* messages, size_t n_messages,
                                 const char* variables, cria_token* tokens, size_t capacity,
                                 size_t* count) {
  return call([&] {
    const auto of = object<ModelObject>(model.id);
    give_array(
        of->chat_template()->encode(of->model->tokenizer(), conversation(messages, n_messages),
                                    render_options(variables)),
        tokens, capacity, count);
  });
}
