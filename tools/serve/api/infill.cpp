#include "tools/serve/api/protocols.h"

#include <algorithm>
#include <utility>

#include "tools/serve/api/equal_request.h"
#include "tools/serve/api/replies.h"

namespace cria::serve {
namespace {

using tools::element_path;
using tools::refuse_type;
using tools::refuse_value;

std::vector<FillText::File> read_other_files(const Fields& body) {
  constexpr std::size_t kMaxFiles = 256;
  std::vector<FillText::File> files;
  const Json* const list = body.array("input_extra");
  if (list == nullptr) return files;
  if (list->size() > kMaxFiles) refuse_value("input_extra", "at most 256 files", list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Fields file((*list)[i], element_path("input_extra", i));
    files.push_back({file.require_text("filename"), file.require_text("text")});
  }
  return files;
}

FillText read_gap(const Fields& body) {
  const auto prefix = body.text("input_prefix"), suffix = body.text("input_suffix");
  if (!prefix && !suffix)
    tools::refuse_missing("input_prefix", "a string, here or in \"input_suffix\"");
  const std::string more = body.text("prompt").value_or("");
  return {prefix.value_or("") + more, suffix.value_or(""), read_other_files(body)};
}

std::vector<std::string> read_response_fields(const Fields& body) {
  std::vector<std::string> names;
  const Json* const list = body.array("response_fields");
  if (list == nullptr) return names;
  if (list->size() > 64) refuse_value("response_fields", "at most 64 names", list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    if (!(*list)[i].is_string())
      refuse_type(element_path("response_fields", i), "a string", (*list)[i]);
    names.push_back((*list)[i]);
  }
  return names;
}

/// llama.cpp's editors name a step "infill", which picks among whole words. It is left out.
void copy_samplers(const Fields& body, EqualRequest& to) {
  const Json* const samplers = body.find("samplers");
  if (samplers == nullptr) return;
  Json& steps = to.body["samplers"] = *samplers;
  if (steps.is_array()) std::erase(steps.get_ref<Json::array_t&>(), "infill");
  if (!steps.is_string()) return;
  std::string kept;
  std::string_view left = steps.get_ref<const std::string&>();
  while (!left.empty()) {
    const std::size_t end = std::min(left.find(';'), left.size());
    if (left.substr(0, end) != "infill")
      kept.append(kept.empty() ? "" : ";").append(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  steps = kept;
}

}  // namespace

EqualRequest read_infill_request(const Json& json) {
  const Fields body(json);
  EqualRequest to;
  to.chat = false;
  to.body = {{"prompt", ""}};
  to.paths.emplace_back("prompt", "input_prefix");
  auto gap = std::make_shared<FillText>(read_gap(body));
  InfillForm form;
  form.fields = read_response_fields(body);
  form.indent = static_cast<std::size_t>(body.integer("n_indent", 0).value_or(0));
  form.time = std::chrono::milliseconds(
      body.integer("t_max_predict_ms", -1, std::int64_t{1} << 40).value_or(0));
  form.id_slot = body.integer("id_slot", -1).value_or(-1);
  copy_samplers(body, to);
  (void)body.has("logprobs");  // not of this protocol
  if (const auto suffix = body.text("suffix"); suffix && !suffix->empty())
    tools::refuse_unsupported("suffix", R"(use "input_suffix")");
  copy_own_fields(body, to);
  end_with_context(to);
  to.change = [gap](CompletionRequest& request) {
    request.fill = std::move(*gap);
    request.cut_prompt = true;
  };
  to.reply = [form](ReplyParts parts) {
    return std::make_shared<InfillReply>(std::move(parts), form);
  };
  return to;
}

std::vector<Route> infill_routes(Api& api) {
  std::vector<Route> routes;
  routes.push_back(api.post_route(
      "/infill", [&api](const auto& exchange, const Json& body, const ModelLease& model) {
        api.ask(exchange, model, read_infill_request(body));
      }));
  return routes;
}

}  // namespace cria::serve
