// Programs that call the C interface, 16 bytes per call: valid, freed, foreign and forged handles,
// NULL pointers, structs of wrong sizes. Invalid calls must be refused and valid ones accepted. At
// the end every function must refuse all freed handles.
#include <algorithm>
#include <string>

#include "model/error.h"
#include "tests/fuzz/c_api_program.h"

namespace cria::fuzz {
namespace {

constexpr std::size_t kMaxCalls = 48;

void run_c_api(std::string_view input) {
  CProgram program;
  std::string_view left = input;
  for (std::size_t calls = 0; !left.empty() && calls < kMaxCalls; ++calls) {
    program.call(left.substr(0, kCallBytes));
    left.remove_prefix(std::min(kCallBytes, left.size()));
  }
  program.end(input.size() % 2 == 1);
  if (program.told() == 0) throw Error("a program that gets no answer");
}

struct SeedCall {
  std::string_view name;
  std::vector<std::uint8_t> arguments = {};
};
std::string c_api_seed(const std::vector<SeedCall>& calls) {
  std::string out;
  for (const SeedCall& call : calls) {
    std::string bytes(kCallBytes, '\0');
    bytes[0] = static_cast<char>(std::ranges::find(CProgram::names(), call.name) -
                                 CProgram::names().begin());
    std::ranges::copy(call.arguments, bytes.begin() + 1);
    out += bytes;
  }
  return out;
}

std::vector<std::string> c_api_seeds() {
  const SeedCall load{"model_load"}, engine{"engine_create"}, begin{"answer_begin"},
      next{"answer_next"}, result{"answer_result"};
  const SeedCall of_tokens{"answer_begin", {0, 0, 0, 0, 0, 0, 4 | 64, 0, 2, 9, 4, 5, 6}},
      of_text{"answer_begin", {0, 0, 0, 0, 0, 3, 1, 0, 1, 0, 2}};
  const std::string scores = c_api_seed({load,
                                         {"engine_create", {0, 0, 1, 2, 2}},
                                         {"score", {0, 3, 4, 5, 6, 7, 2, 4, 5, 6, 0, 1, 2}},
                                         {"perplexity", {0, 1, 0, 0, 0, 0, 0, 2}},
                                         of_text,
                                         result});
  const SeedCall four{"engine_create", {0, 0, 1, 2, 2}},
      constrained{"answer_begin", {0, 0, 0, 0, 1, 0, 3, 0, 0}};
  std::vector<std::string> out = {c_api_seed({load,
                                              {"sampler_create"},
                                              {"sampler_set"},
                                              engine,
                                              begin,
                                              next,
                                              next,
                                              result,
                                              {"answer_free"},
                                              {"engine_free"},
                                              {"model_free"}}),
                                  c_api_seed({load,
                                              {"model_info"},
                                              {"tokenize", {0, 1}},
                                              {"detokenize", {0, 1, 5, 4, 5, 6, 7, 8, 9}},
                                              {"apply_template"},
                                              {"apply_template", {0, 1}},
                                              engine,
                                              {"engine_options"},
                                              {"logits", {0, 7, 4, 5, 6, 7}},
                                              {"embed", {0, 3, 4, 5, 6}},
                                              of_tokens,
                                              result}),
                                  c_api_seed({load,
                                              four,
                                              {"sequence_create"},
                                              {"forward", {0, 0, 1, 3, 4, 5, 6, 7}},
                                              {"sequence_fork"},
                                              {"sequence_tokens"},
                                              {"forward", {1, 0, 0, 2, 4, 5, 6, 1, 0, 1, 7, 8}},
                                              {"sequence_truncate", {0, 0, 2}},
                                              {"sequence_reuse", {0, 3, 4, 5, 6}},
                                              {"sequence_free"},
                                              {"sequence_free"},
                                              of_text,
                                              next,
                                              result}),
                                  c_api_seed({load,
                                              four,
                                              {"constrain", {0, 0, 0}},
                                              {"constraint_check", {0, 0, 0, 0}},
                                              {"constrain", {0, 1, 0}},
                                              {"constrain", {0, 2, 0}},
                                              {"sampler_create"},
                                              {"sampler_set", {0, 0, 1}},
                                              {"sampler_set_more", {0, 0, 7}},
                                              {"sampler_set_more", {0, 1, 0, 5}},
                                              {"sampler_set_more", {0, 2}},
                                              {"sampler_set_more", {0, 3, 0, 0, 2}},
                                              constrained,
                                              of_text,
                                              next,
                                              {"engine_step"},
                                              {"answer_poll"},
                                              result,
                                              {"answer_cancel"},
                                              {"constraint_free"},
                                              {"sampler_free"}}),
                                  c_api_seed({{"model_load", {0, 1}},
                                              {"model_load", {0, 0, 4, 3, 3}},
                                              {"engine_create", {0, 0, 0, 0, 2, 0, 0, 0, 1, 1}},
                                              of_text,
                                              of_tokens,
                                              result,
                                              {"engine_cancel"},
                                              result}),
                                  c_api_seed({load,
                                              engine,
                                              of_text,
                                              {"engine_free"},
                                              next,
                                              {"model_free"},
                                              result,
                                              {"answer_free"},
                                              load,
                                              engine,
                                              begin,
                                              result}),
                                  c_api_seed({load,
                                              {"model_free"},
                                              {"model_info", {180}},
                                              {"engine_create", {180}},
                                              load,
                                              engine,
                                              {"model_info", {200}},
                                              {"answer_begin", {0, 0, 0, 200}},
                                              begin,
                                              {"answer_result", {0, 210}},
                                              {"answer_next", {0, 209}},
                                              {"answer_next", {0, 255}},
                                              {"engine_step", {240, 3}},
                                              result})};
  out.push_back(scores);
  for (std::uint8_t what = 0; what < 6; ++what)
    out.push_back(c_api_seed(
        {load, four, of_text, begin, of_tokens, {"two_threads", {what, what}}, of_text, result}));
  std::vector<SeedCall> each = {load, {"sampler_create"}, engine, begin, result};
  for (const std::string_view name : CProgram::names()) each.push_back({name});
  out.push_back(c_api_seed(each));
  return out;
}

std::string mutate_calls(std::string_view input, Random& random, std::size_t max_bytes) {
  std::vector<std::string> calls;
  for (; !input.empty(); input.remove_prefix(std::min(kCallBytes, input.size()))) {
    calls.emplace_back(input.substr(0, kCallBytes));
    calls.back().resize(kCallBytes);
  }
  const auto byte = [&] { return static_cast<char>(random() >> 8); };
  std::string added(kCallBytes, '\0');
  added[0] = static_cast<char>(random() % CProgram::names().size());
  if (random() % 2 == 0) added[1 + random() % (kCallBytes - 1)] = byte();
  if (calls.empty()) return added;
  const auto any = [&] {
    return calls.begin() + static_cast<std::ptrdiff_t>(random() % calls.size());
  };
  const std::string copied = *any();
  switch (random() % 5) {
    case 0:
      calls.insert(any(), added);
      break;
    case 1:
      calls.insert(any(), copied);
      break;
    case 2:
      calls.erase(any());
      break;
    case 3:
      std::iter_swap(any(), any());
      break;
    default:
      (*any())[random() % kCallBytes] = byte();
  }
  std::string out;
  for (const std::string& call : calls) out += call;
  return out.substr(0, max_bytes);
}

}  // namespace

const Target kCApi{"c_api", run_c_api, c_api_seeds, mutate_calls};

}  // namespace cria::fuzz
