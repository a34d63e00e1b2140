#include "tokenizer/chat/answer_format.h"

namespace cria {
namespace {

struct Block {
  std::string_view open, close;
};

// Markers documented by the models' makers. The first block that a template names is the model's:
// some templates mention <think> only to remove it from earlier answers.
constexpr Block kBlocks[] = {{"<seed:think>", "</seed:think>"},
                             {"[THINK]", "[/THINK]"},
                             {"<|START_THINKING|>", "<|END_THINKING|>"},
                             {"<|channel>thought", "<channel|>"},
                             {"<|inner_prefix|>", "<|inner_suffix|>"},
                             {"<thought>", "</thought>"},
                             {"Here is my thought process:", "Here is my response:"},
                             {"Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"},
                             {"<think>", "</think>"}};
constexpr Block kAnswers[] = {{"<response>", "</response>"}, {"<answer>", "</answer>"}};
// Ends the answer that follows "[BEGIN FINAL RESPONSE]" (Apriel 1.5).
constexpr std::string_view kFinalResponseEnd = "[END FINAL RESPONSE]";

bool names(std::string_view source, std::string_view marker) {
  return source.find(marker) != std::string_view::npos;
}

bool ends_with_open(std::string_view prompt, std::string_view open) {
  const std::size_t end = prompt.find_last_not_of(" \t\r\n");
  return end != std::string_view::npos && prompt.substr(0, end + 1).ends_with(open);
}

}  // namespace

AnswerFormat AnswerFormat::of_template(std::string_view source) {
  AnswerFormat format;
  format.calls = call_form_of_template(source);
  const bool solar =
      names(source, "<|begin|>") && names(source, "<|think|>") && names(source, "<|content|>");
  if (solar || (names(source, "<|channel|>") && names(source, "analysis"))) {
    format.kind = Kind::Channels;
    return format;
  }
  for (const Block& block : kBlocks) {
    if (!names(source, block.open) && !names(source, block.close)) continue;
    format.kind = Kind::Block;
    format.open = block.open;
    format.close = block.close;
    break;
  }
  if (names(source, kFinalResponseEnd)) format.answer_close = kFinalResponseEnd;
  for (const Block& around : kAnswers) {
    if (!format.thinks() || !names(source, around.open)) continue;
    format.answer_open = around.open;
    format.answer_close = around.close;
    break;
  }
  return format;
}

bool AnswerFormat::opened_by(std::string_view prompt) const {
  switch (kind) {
    case Kind::Plain:
      return false;
    case Kind::Block:
      return ends_with_open(prompt, open);
    case Kind::Channels:
      return ends_with_open(prompt, "<|channel|>analysis<|message|>");
  }
  return false;
}

}  // namespace cria
