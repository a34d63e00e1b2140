// Every option of kSamplerOptions through every interface: command line, requests of `cria serve`,
// lines of `cria batch`, and C.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/c/cria.h"
#include "tests/tools/process.h"
#include "tests/tools/serve/served_demo.h"
#include "tools/cli/command_line.h"
#include "tools/commands/batch_request.h"
#include "tools/options/conversation.h"

namespace cria::test {
namespace {

bool is_whole(const SamplerOption& option) {
  return std::holds_alternative<std::int32_t SamplerOptions::*>(option.member);
}

/// A value within all limits, and not the default.
double some_value(const SamplerOption& option) {
  const double low = std::max(option.low, -option.openai),
               high = std::min(option.high, option.openai);
  const double value = low + 0.625 * std::min(high - low, is_whole(option) ? 6.0 : 2.0);
  return is_whole(option) ? std::floor(value) : value;
}

std::vector<const SamplerOption*> number_options() {
  std::vector<const SamplerOption*> all;
  for (const SamplerOption& option : kSamplerOptions)
    if (sampler_number({}, option)) all.push_back(&option);
  return all;
}

/// The value as the command line takes it.
std::string text_of(double value) { return Json(value).dump(); }

SamplerOptions from_command_line(const std::vector<std::string>& arguments) {
  tools::Program program;
  tools::SamplingOptions sampling;
  program.add("sample", "").add(sampling.flags());
  tools::Words words = {"sample"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  tools::set_values(*tools::read_arguments(program, words));
  return sampling.resolve().sampler;
}

SamplerOptions from_serve(const Json& fields) {
  Json body = {{"messages", {{{"role", "user"}, {"content", "x"}}}}};
  body.update(fields);
  return tools::read_chat_request(body, {}, 100).generate.sampler;
}

SamplerOptions from_completions(const Json& fields) {
  Json body = {{"prompt", "x"}};
  body.update(fields);
  return tools::read_completion_request(body, {}, 100).generate.sampler;
}

SamplerOptions from_batch(const Json& fields) {
  Json body = {{"prompt", "x"}};
  body.update(fields);
  return tools::parse_batch_request(body.dump(), {}).generate.sampler;
}

bool refuses(const std::function<void()>& door) {
  try {
    door();
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

TEST(SamplerInterfaces, SetEveryNumber) {
  for (const SamplerOption* const option : number_options()) {
    const std::string name(option->name);
    SCOPED_TRACE(name);
    const double value = some_value(*option);
    const Json json = is_whole(*option) ? Json(static_cast<int>(value)) : Json(value);
    const auto expected = static_cast<double>(static_cast<float>(value));
    ASSERT_NE(sampler_number({}, *option), expected);
    EXPECT_EQ(sampler_number(from_command_line({"--" + sampler_flag(*option) + "=" + json.dump()}),
                             *option),
              expected);
    for (const auto& read : {from_serve, from_completions, from_batch}) {
      EXPECT_EQ(sampler_number(read({{name, json}}), *option), expected);
      if (option->alias.empty()) continue;
      EXPECT_EQ(sampler_number(read({{std::string(option->alias), json}}), *option), expected);
    }
  }
}

TEST(SamplerInterfaces, ComeBackAsFieldsOfARequest) {
  SamplerOptions options;
  for (const SamplerOption* const option : number_options())
    set_sampler_number(options, *option, some_value(*option));
  options.steps = parse_sampler_steps("top_k;temperature");
  options.dry_sequence_breakers = {"a"};
  options.logit_bias = {{5, -std::numeric_limits<float>::infinity()}};
  options.seed = 7;
  const Json fields = tools::sampler_fields(options);
  const SamplerOptions read = from_serve(fields);
  for (const SamplerOption* const option : number_options())
    EXPECT_EQ(sampler_number(read, *option), sampler_number(options, *option)) << option->name;
  EXPECT_EQ(read.steps, options.steps);
  EXPECT_EQ(read.dry_sequence_breakers, options.dry_sequence_breakers);
  EXPECT_EQ(read.logit_bias, options.logit_bias);
  EXPECT_EQ(read.seed, options.seed);
  EXPECT_EQ(tools::sampler_fields({})["temperature"].dump(), "0.8");
}

TEST(SamplerInterfaces, RefuseEveryNumberOutOfRange) {
  for (const SamplerOption* const option : number_options()) {
    const std::string name(option->name);
    SCOPED_TRACE(name);
    std::vector<double> wrong = {option->low - (option->minus_one ? 2 : 1)};
    if (option->high != kMaxSamplerCount) wrong.push_back(option->high + 1);
    for (const double value : wrong) {
      EXPECT_TRUE(refuses(
          [&] { from_command_line({"--" + sampler_flag(*option) + "=" + text_of(value)}); }));
      for (const auto& read : {from_serve, from_completions, from_batch})
        EXPECT_TRUE(refuses([&] { read({{name, value}}); })) << value;
      SamplerOptions options;
      EXPECT_TRUE(refuses([&] { set_sampler_number(options, *option, value); })) << value;
    }
    for (const auto& read : {from_serve, from_batch})
      EXPECT_TRUE(refuses([&] { read({{name, "1"}}); }));
  }
  EXPECT_TRUE(refuses([] { from_serve({{"temperature", 2.5}}); })) << "OpenAI's limit";
  EXPECT_EQ(from_command_line({"--temp=2.5"}).temperature, 2.5F);
  EXPECT_EQ(from_command_line({"--top-n-sigma=-1.00"}).top_n_sigma, 0.F);
  EXPECT_EQ(from_serve({{"top_n_sigma", -1}}).top_n_sigma, 0.F);
}

TEST(SamplerInterfaces, SetListsAndFlags) {
  const auto steps = parse_sampler_steps("top_k;temperature");
  EXPECT_EQ(from_command_line({"--samplers=top_k;temperature"}).steps, steps);
  using Strings = std::vector<std::string>;
  EXPECT_EQ(from_command_line({"--dry-sequence-breaker=a"}).dry_sequence_breakers, Strings{"a"});
  EXPECT_EQ(from_command_line({"--logit-bias=5-2.5"}).logit_bias.at(0).second, -2.5F);
  EXPECT_EQ(from_command_line({"--seed=7"}).seed, 7U);
  for (const auto& read : {from_serve, from_completions, from_batch}) {
    EXPECT_EQ(read({{"samplers", "top_k;temperature"}}).steps, steps);
    EXPECT_EQ(read({{"samplers", {"top_k", "temperature"}}}).steps, steps);
    EXPECT_EQ(read({{"samplers", Json::array()}}).steps, parse_sampler_steps(""));
    EXPECT_TRUE(refuses([&] { read({{"samplers", {"magic"}}}); }));
    EXPECT_EQ(read({{"dry_sequence_breakers", {"a", "b"}}}).dry_sequence_breakers,
              (Strings{"a", "b"}));
    EXPECT_TRUE(read({{"dry_sequence_breakers", Json::array()}}).dry_sequence_breakers.empty());
    EXPECT_EQ(read({{"logit_bias", {{"5", -2.5}}}}).logit_bias.at(0).second, -2.5F);
    EXPECT_EQ(read({{"seed", 7}}).seed, 7U);
  }
}

TEST(SamplerInterfaces, CSetsEveryNumber) {
  cria_model model{};
  const std::string path = std::string(project_root()) + "/data/cria-demo-Q8_0.gguf";
  const cria_model_options options = CRIA_STRUCT(cria_model_options);
  ASSERT_EQ(cria_model_load(path.c_str(), &options, &model), CRIA_OK) << cria_last_error();
  cria_sampler sampler{};
  ASSERT_EQ(cria_sampler_create(model, &sampler), CRIA_OK);
  for (const SamplerOption* const option : number_options()) {
    const std::string name(option->name);
    EXPECT_EQ(cria_sampler_set(sampler, name.c_str(), some_value(*option)), CRIA_OK)
        << cria_last_error();
    EXPECT_EQ(cria_sampler_set(sampler, name.c_str(), option->low - 1), CRIA_ERROR_DATA) << name;
  }
  EXPECT_EQ(cria_sampler_free(sampler), CRIA_OK);
  EXPECT_EQ(cria_model_free(model), CRIA_OK);
}

// The same request gives the same text by `cria run` and `cria serve`, and has an effect.
TEST(SamplerInterfaces, RunAndServeGiveTheSameAnswer) {
  serve::test::ServedDemo demo;
  const std::string question = "Write a short poem about the sea.";
  const auto served = [&](Json fields) {
    Json body = {{"messages", {{{"role", "user"}, {"content", question}}}},
                 {"max_tokens", 24},
                 {"seed", 3},
                 {"temperature", 1.5}};
    body.update(fields);
    return demo.answer("/v1/chat/completions", body)
        ->json()["choices"][0]["message"]["content"]
        .get<std::string>();
  };
  const std::string plain = served(Json::object());
  const std::vector<std::pair<Json, std::vector<std::string>>> cases = {
      {{{"xtc_probability", 1}, {"xtc_threshold", 0.01}},
       {"--xtc-probability", "1", "--xtc-threshold", "0.01"}},
      {{{"top_n_sigma", 0.5}}, {"--top-n-sigma", "0.5"}},
      {{{"dynatemp_range", 1.25}, {"dynatemp_exponent", 2}},
       {"--dynatemp-range", "1.25", "--dynatemp-exp", "2"}},
      {{{"mirostat", 2}, {"mirostat_tau", 1.5}, {"mirostat_eta", 0.5}},
       {"--mirostat", "2", "--mirostat-ent", "1.5", "--mirostat-lr", "0.5"}},
      {{{"dry_multiplier", 9},
        {"dry_base", 3},
        {"dry_allowed_length", 0},
        {"dry_last_n", 20},
        {"dry_sequence_breakers", {"\n"}}},
       {"--dry-multiplier", "9", "--dry-base", "3", "--dry-allowed-length", "0",
        "--dry-penalty-last-n", "20", "--dry-sequence-breaker", "\n"}},
      {{{"samplers", {"temperature"}}}, {"--samplers", "temperature"}},
      {{{"presence_penalty", 2}, {"frequency_penalty", 2}},
       {"--presence-penalty", "2", "--frequency-penalty", "2"}},
      {{{"repeat_penalty", 3}, {"repeat_last_n", -1}},
       {"--repeat-penalty", "3", "--repeat-last-n", "-1"}}};
  int changed = 0;
  for (const auto& [fields, flags] : cases) {
    std::vector<std::string> arguments = {"run",    "-p", question, "-n", "24",
                                          "--seed", "3",  "--temp", "1.5"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    const Result run = cria(arguments);
    ASSERT_EQ(run.code, 0) << run.err;
    const std::string answer = served(fields);
    EXPECT_EQ(run.out, answer.ends_with('\n') ? answer : answer + "\n") << fields;
    changed += answer != plain;
  }
  EXPECT_GE(changed, 5) << "of 8";  // this text repeats nothing
}

// OpenAI's penalties do not count the prompt.
TEST(SamplerInterfaces, PenaltiesOfOpenAiIgnoreThePrompt) {
  serve::test::ServedDemo demo;
  const auto first_token = [&](const char* name, double value) {
    const Json body = {{"prompt", "The capital of France is Paris. The capital of France is"},
                       {"max_tokens", 1},
                       {"temperature", 0},
                       {name, value}};
    return demo.answer("/v1/completions", body)->json()["choices"][0]["text"].get<std::string>();
  };
  const std::string plain = first_token("presence_penalty", 0);
  EXPECT_EQ(first_token("presence_penalty", 2), plain);
  EXPECT_EQ(first_token("frequency_penalty", 2), plain);
  EXPECT_EQ(first_token("presence_penalty", -2), plain);
}

}  // namespace
}  // namespace cria::test
