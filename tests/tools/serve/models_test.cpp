// Several models on one server: loads, waiting requests, and answers equal to each model alone.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "engine/constrain/constraint.h"
#include "tests/tools/serve/event.h"
#include "tests/tools/serve/questions.h"
#include "tests/tools/serve/served_demo.h"

namespace cria::serve::test {
namespace {

const std::vector<std::string> kNames = {"alpha", "beta", "gamma"};
constexpr std::uint32_t kLongContext = 1
                                       << 14;  // no answer gets there while a test looks elsewhere

/// Returns the demo model with another base of RoPE's frequencies, so that answers differ.
std::shared_ptr<const Model> variant(const std::string& name) {
  LoadOptions options;
  if (name != "alpha")
    options.overrides = {{".rope.freq_base", name == "beta" ? 14'000.0 : 25'000.0}};
  return Model::load(demo_model()->path(), options);
}

/// Controls the loads of a test.
struct Loads {
  std::atomic<int> broken{0};     ///< loads of gamma that fail
  std::atomic<bool> held{false};  ///< loads of beta wait
  ServiceOptions service;
};

std::unique_ptr<ServedModel> opened(const std::string& name) {
  auto served = std::make_unique<ServedModel>(
      ServedModel::of(variant(name), demo_template(), std::nullopt, name));
  served->card.memory = 100;
  return served;
}

std::unique_ptr<ServedModel> loaded(const std::string& name, Loads& loads, Metrics& metrics) {
  if (name == "gamma" && loads.broken > 0 && loads.broken-- > 0)
    throw Error("gamma.gguf", "is broken");
  while (name == "beta" && loads.held) std::this_thread::sleep_for(milliseconds(1));
  auto served = opened(name);
  served->service = std::make_unique<Service>(*served->model, loads.service, metrics);
  return served;
}

struct ThreeModels : Loads {
  explicit ThreeModels(PoolOptions options = {}, std::uint32_t n_ctx = 512) {
    service.engine.n_ctx = n_ctx;
    service.engine.sequences = 2;
    service.engine.threads = 1;
    options.on_demand = options.strict = true;
    served = std::make_unique<ServedPool>(
        [this](Metrics& metrics) {
          std::vector<ModelSource> sources;
          for (const std::string& name : kNames)
            sources.push_back({name, "", [name] { return opened(name); },
                               [this, name, &metrics] { return loaded(name, *this, metrics); }});
          return sources;
        },
        options, ApiOptions());
  }
  std::shared_ptr<FakeExchange> ask(const std::string& model, Json more = Json::object()) {
    more["model"] = model;
    return served->ask(kChatPath, question("What is the capital of Norway?", std::move(more)));
  }
  int status(const std::string& model, Json more = Json::object()) {
    const auto exchange = ask(model, std::move(more));
    exchange->wait();
    return exchange->status();
  }
  /// Threads may hold a model for a moment after its answer.
  void wait_until_idle() {
    for (std::size_t i = 0; i < kNames.size(); ++i)
      for (int j = 0; j < 10'000 && served->pool().entry(i).in_use; ++j)
        std::this_thread::sleep_for(milliseconds(1));
  }
  /// "loaded unloaded loading": of the three.
  std::string states() {
    std::string text;
    for (std::size_t i = 0; i < kNames.size(); ++i)
      text += (i == 0 ? "" : " ") + std::string(served->pool().entry(i).status);
    return text;
  }
  bool comes_to(const std::string& wanted) {
    for (int i = 0; i < 10'000 && states() != wanted; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    return states() == wanted;
  }
  /// Returns a stream that has begun and goes on until it is closed.
  std::shared_ptr<FakeExchange> busy(const std::string& model) {
    auto exchange = ask(model, {{"ignore_eos", true}, {"stream", true}});
    exchange->wait_for_events(2);
    return exchange;
  }
  void wait_for(std::size_t waiting) {
    const Count& now = served->metrics().requests_waiting;
    for (int i = 0; i < 60'000 && now.value() != waiting; ++i)
      std::this_thread::sleep_for(milliseconds(1));
    EXPECT_EQ(now.value(), waiting);
  }

  std::unique_ptr<ServedPool> served;
};

const Json kShort = {{"max_tokens", 2}};

TEST(ServeModels, LoadsOnDemandAndUnloadsTheLeastRecentlyUsed) {
  ThreeModels models({.max_loaded = 2});
  EXPECT_EQ(models.states(), "unloaded unloaded unloaded");
  for (const char* name : {"alpha", "beta", "alpha", "gamma"}) {
    EXPECT_EQ(models.status(name, kShort), 200);
    models.wait_until_idle();
  }
  EXPECT_EQ(models.states(), "loaded unloaded loaded");
  const Metrics& metrics = models.served->metrics();
  EXPECT_EQ(metrics.models_loaded.value(), 2U);
  EXPECT_EQ(metrics.model_loads.value(), 3U);
  EXPECT_EQ(metrics.model_unloads.value(), 1U);
  EXPECT_EQ(metrics.kv_positions.value(), 2U * 2U * 512U);
  EXPECT_EQ(models.status("delta", kShort), 404);
}

TEST(ServeModels, KeepToTheMemoryLimit) {
  {
    ThreeModels models({.max_memory = 250});
    for (const std::string& name : kNames) {
      EXPECT_EQ(models.status(name, kShort), 200);
      models.wait_until_idle();
    }
    EXPECT_EQ(models.states(), "unloaded loaded loaded");
  }
  ThreeModels models({.max_memory = 99});
  const auto refused = models.ask("beta", kShort);
  refused->wait();
  EXPECT_EQ(refused->status(), 503);
  EXPECT_EQ(refused->json()["error"]["code"], "insufficient_memory");
}

TEST(ServeModels, GoWhenTheyAreIdle) {
  ThreeModels models({.idle = milliseconds(1)});
  EXPECT_EQ(models.status("alpha", {{"max_tokens", 2}, {"keep_alive", -1}}), 200);
  EXPECT_EQ(models.status("beta", kShort), 200);
  EXPECT_EQ(models.status("gamma", {{"max_tokens", 2}, {"keep_alive", "1h"}}), 200);
  EXPECT_TRUE(models.comes_to("loaded unloaded loaded"));
  EXPECT_TRUE(models.served->pool().entry(2).expires.has_value());
  EXPECT_FALSE(models.served->pool().entry(0).expires.has_value());
  EXPECT_EQ(models.status("alpha", {{"max_tokens", 2}, {"keep_alive", 0}}), 200);
  EXPECT_TRUE(models.comes_to("unloaded unloaded loaded"));
}

TEST(ServeModels, AreLoadedAndUnloadedByEmptyRequestsOfOllama) {
  ThreeModels models;
  const auto ask = [&](Json body) {
    body["model"] = "beta:latest";
    body["stream"] = false;
    return models.served->answer("/api/chat", body)->json()["done_reason"].get<std::string>();
  };
  EXPECT_EQ(ask({{"messages", Json::array()}}), "load");
  EXPECT_EQ(models.states(), "unloaded loaded unloaded");
  EXPECT_EQ(ask({{"messages", Json::array()}, {"keep_alive", 0}}), "unload");
  EXPECT_TRUE(models.comes_to("unloaded unloaded unloaded"));
  EXPECT_EQ(ask({{"messages", Json::array()}, {"keep_alive", 0}}), "unload");
  EXPECT_EQ(models.served->metrics().model_loads.value(), 1U);
}

TEST(ServeModels, ReportLoadsThatFailAndTryAgain) {
  ThreeModels models;
  models.broken = 1;
  const auto failed = models.ask("gamma", kShort);
  failed->wait();
  EXPECT_EQ(failed->status(), 500);
  EXPECT_EQ(failed->json()["error"]["code"], "model_load_failed");
  EXPECT_EQ(failed->json()["error"]["message"], "gamma.gguf: is broken");
  EXPECT_EQ(models.status("gamma", kShort), 200);
}

// A busy model that has to go takes no later request; others do.
TEST(ServeModels, AreWaitedForInOrderOfArrival) {
  ThreeModels models({.max_loaded = 1}, kLongContext);
  const auto first = models.busy("alpha");
  const auto other = models.ask("beta", kShort);
  models.wait_for(1);
  const auto late = models.ask("alpha", kShort);
  models.wait_for(2);
  EXPECT_EQ(models.states(), "loaded unloaded unloaded");
  first->close();
  other->wait();
  late->wait();
  EXPECT_EQ(other->status(), 200);
  EXPECT_EQ(late->status(), 200);
  EXPECT_EQ(models.states(), "loaded unloaded unloaded");
  EXPECT_EQ(models.served->metrics().model_loads.value(), 3U);
}

TEST(ServeModels, AreNotHeldUpByRequestsThatWaitForOthers) {
  ThreeModels models({.max_loaded = 2}, kLongContext);
  const auto one = models.busy("alpha"), two = models.busy("beta");
  const auto waiting = models.ask("gamma", kShort);
  models.wait_for(1);
  two->close();
  waiting->wait();
  EXPECT_EQ(models.states(), "loaded unloaded loaded");
  EXPECT_EQ(models.status("alpha", kShort), 200);
  one->close();
}

TEST(ServeModels, AreLoadedForRequestsThatHaveLeft) {
  ThreeModels models;
  models.held = true;
  const auto gone = models.ask("beta", kShort);
  EXPECT_TRUE(models.comes_to("unloaded loading unloaded"));
  gone->close();
  models.wait_for(0);
  models.held = false;
  EXPECT_TRUE(models.comes_to("unloaded loaded unloaded"));
  EXPECT_EQ(gone->body(), "");
}

TEST(ServeModels, CountRequestsThatWaitForThemInTheQueue) {
  ThreeModels models({.queue = 2});
  models.held = true;
  const auto one = models.ask("beta", kShort), two = models.ask("beta", kShort);
  models.wait_for(2);
  const auto refused = models.ask("beta", kShort);
  refused->wait();
  EXPECT_EQ(refused->json()["error"]["code"], "queue_full");
  models.held = false;
  one->wait();
  two->wait();
  EXPECT_EQ(one->status() + two->status(), 400);
}

// The transport breaks the silence of a stream that has begun.
TEST(ServeModels, StreamsBeginWhileTheyWait) {
  ThreeModels models;
  models.held = true;
  const auto whole = models.ask("beta", kShort);
  const auto events = models.ask("beta", {{"max_tokens", 2}, {"stream", true}});
  const auto lines = models.served->ask(
      "/api/generate",
      Json{{"model", "beta"}, {"prompt", "Hi"}, {"options", {{"num_predict", 2}}}});
  models.wait_for(3);
  EXPECT_FALSE(whole->streamed());
  EXPECT_TRUE(events->streamed() && lines->streamed());
  EXPECT_FALSE(events->has_events(1) || lines->has_events(1));
  lines->break_silence();
  models.held = false;
  for (const auto& one : {whole, events, lines}) {
    one->wait();
    EXPECT_EQ(one->status(), 200);
  }
  const Json first = Json::parse(lines->events().front());
  EXPECT_EQ(first["response"], "");
  EXPECT_EQ(first["done"], false);
  EXPECT_EQ(first["model"], "beta");
}

// An error has its own status if nothing has been sent.
TEST(ServeModels, StreamsMayFailWhileTheyWait) {
  ThreeModels models;
  models.broken = 1;
  const auto failed = models.ask("gamma", {{"stream", true}});
  failed->wait();
  EXPECT_EQ(failed->status(), 500);
  EXPECT_EQ(failed->json()["error"]["code"], "model_load_failed");
}

TEST(ServeModels, WaitingRequestsEndWithTheServer) {
  ThreeModels models;
  models.held = true;
  const auto waiting = models.ask("beta", kShort);
  models.wait_for(1);
  models.served->pool().shut_down(milliseconds(0));
  waiting->wait();
  EXPECT_EQ(waiting->json()["error"]["code"], "shutting_down");
  models.held = false;
}

// ------------------------------------------------------------ sixteen clients

enum class Form : std::uint8_t { Chat, Text, Responses, Messages, Ollama };
enum class Kind : std::uint8_t { Plain, Schema, Tool };

const std::string kPlace =
    R"({"type":"object","properties":{"place":{"type":"string","maxLength":12},"far":{"type":"boolean"}},)"
    R"("required":["place","far"],"additionalProperties":false})";
const std::string kPlaceTools =
    R"([{"type":"function","function":{"name":"look_up","parameters":)" + kPlace + "}}]";

struct Asked {
  std::string model, prompt;
  Form form;
  Kind kind;
  float temperature;
  std::uint64_t seed;
  std::int64_t max_tokens;
};

std::vector<Asked> all_asked() {
  std::vector<Asked> all;
  for (std::uint64_t i = 0; i < 30; ++i) {
    const auto form = static_cast<Form>(i % 5);
    auto kind = static_cast<Kind>(i / 5 % 3);
    // Ollama cannot require a call, and completions have no tools.
    if (kind == Kind::Tool && (form == Form::Ollama || form == Form::Text)) kind = Kind::Plain;
    all.push_back({kNames[i % 3], "Tell me about harbour number " + std::to_string(i * 7), form,
                   kind, static_cast<float>(i % 3) * 0.5F, i,
                   kind == Kind::Plain ? static_cast<std::int64_t>(4 + i * 5 % 40) : 100});
  }
  return all;
}

void add_schema(const Asked& asked, Json& body) {
  const Json schema = Json::parse(kPlace);
  const Json named = {{"type", "json_schema"}, {"name", "place"}, {"schema", schema}};
  if (asked.form == Form::Responses)
    body["text"]["format"] = named;
  else if (asked.form == Form::Messages)
    body["output_config"]["format"] = {{"type", "json_schema"}, {"schema", schema}};
  else if (asked.form == Form::Ollama)
    body["format"] = schema;
  else
    body["response_format"] = {{"type", "json_schema"},
                               {"json_schema", {{"name", "place"}, {"schema", schema}}}};
}

void add_tool(const Asked& asked, Json& body) {
  const Json tools = Json::parse(kPlaceTools);
  const Json schema = Json::parse(kPlace);
  if (asked.form == Form::Messages) {
    body["tools"] = {{{"name", "look_up"}, {"input_schema", schema}}};
    body["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
    return;
  }
  body["tools"] = tools;
  if (asked.form == Form::Responses)
    body["tools"] = {{{"type", "function"}, {"name", "look_up"}, {"parameters", schema}}};
  body["tool_choice"] = "required";
  body["parallel_tool_calls"] = false;
}

Json asked_body(const Asked& asked, bool stream) {
  Json body = {{"model", asked.model}, {"stream", stream}};
  const Json messages = {{{"role", "user"}, {"content", asked.prompt}}};
  Json& options = asked.form == Form::Ollama ? body["options"] : body;
  options["temperature"] = asked.temperature;
  options["seed"] = asked.seed;
  options[asked.form == Form::Ollama      ? "num_predict"
          : asked.form == Form::Responses ? "max_output_tokens"
                                          : "max_tokens"] = asked.max_tokens;
  if (asked.form == Form::Text)
    body["prompt"] = asked.prompt;
  else if (asked.form == Form::Responses)
    body["input"] = asked.prompt;
  else
    body["messages"] = messages;
  if (asked.kind == Kind::Schema) add_schema(asked, body);
  if (asked.kind == Kind::Tool) add_tool(asked, body);
  return body;
}

const char* path_of(Form form) {
  constexpr const char* kPaths[] = {kChatPath, kTextPath, "/v1/responses", "/v1/messages",
                                    "/api/chat"};
  return kPaths[static_cast<std::size_t>(form)];
}

/// Text and calls of an answer; blanks between arguments do not count.
struct Said {
  std::string text, name, arguments;
  [[nodiscard]] std::string all() const {
    return text + "|" + name + (arguments.empty() ? "" : Json::parse(arguments).dump());
  }
};

void add_whole(Form form, const Json& json, Said& said) {
  const auto call = [&said](const Json& name, const std::string& arguments) {
    said.name += name.get<std::string>();
    said.arguments += arguments;
  };
  if (form == Form::Text) {
    said.text += json["choices"][0]["text"];
  } else if (form == Form::Responses) {
    for (const Json& item : json["output"])
      if (item["type"] == "function_call")
        call(item["name"], item["arguments"]);
      else
        said.text += item["content"][0]["text"];
  } else if (form == Form::Messages) {
    for (const Json& block : json["content"])
      if (block["type"] == "tool_use")
        call(block["name"], block["input"].dump());
      else
        said.text += block["text"];
  } else {
    const Json& message = form == Form::Chat ? json["choices"][0]["message"] : json["message"];
    if (message["content"].is_string()) said.text += message["content"];
    for (const Json& one : message.value("tool_calls", Json::array()))
      call(one["function"]["name"], one["function"]["arguments"]);
  }
}

void add_piece(Form form, const Json& json, Said& said) {
  const std::string type = json.value("type", "");
  if (form == Form::Chat || form == Form::Text) {
    if (json["choices"].empty()) return;
    const Json& choice = json["choices"][0];
    if (form == Form::Text) {
      said.text += choice["text"];
      return;
    }
    const Json& delta = choice["delta"];
    if (delta.contains("content") && delta["content"].is_string()) said.text += delta["content"];
    for (const Json& one : delta.value("tool_calls", Json::array())) {
      said.name += one["function"].value("name", "");
      said.arguments += one["function"].value("arguments", "");
    }
  } else if (form == Form::Ollama) {
    add_whole(form, json, said);
  } else if (type == "response.output_text.delta") {
    said.text += json["delta"];
  } else if (type == "response.function_call_arguments.delta") {
    said.arguments += json["delta"];
  } else if (type == "response.output_item.added" && json["item"]["type"] == "function_call") {
    said.name += json["item"]["name"];
  } else if (type == "content_block_start" && json["content_block"]["type"] == "tool_use") {
    said.name += json["content_block"]["name"];
  } else if (type == "content_block_delta") {
    said.text += json["delta"].value("text", "");
    said.arguments += json["delta"].value("partial_json", "");
  }
}

std::string said_in(Form form, const FakeExchange& exchange) {
  Said said;
  if (!exchange.streamed()) {
    add_whole(form, exchange.json(), said);
  } else {
    for (const std::string& event : exchange.events())
      if (event != "[DONE]") add_piece(form, Json::parse(event), said);
  }
  return said.all();
}

/// Returns what the model writes alone.
std::string said_alone(const Asked& asked, const std::shared_ptr<const Model>& model) {
  SessionOptions session_options;
  session_options.n_ctx = 512;
  session_options.threads = 1;
  Session session(*model, session_options);
  GenerateOptions options;
  options.sampler.temperature = asked.temperature;
  options.sampler.seed = asked.seed;
  options.max_tokens = asked.max_tokens;
  if (asked.kind == Kind::Schema) options.constraint = Constraint::json_schema(kPlace);
  if (asked.form == Form::Text)
    return Said{session.generate(model->tokenizer().encode(asked.prompt, true, true), options).text,
                "", ""}
        .all();
  ChatOptions how;
  if (asked.kind == Kind::Tool) {
    how.variables = R"({"tools":)" + kPlaceTools + "}";
    const CallForm form = demo_template()->answer_format(how.variables).calls;
    options.constraint = Constraint::tool_calls({form, kPlaceTools, "", false, false, {}, {}});
  }
  const GenerateResult result = session.chat({{"user", asked.prompt}}, options, {}, how);
  Said said{result.text, "", ""};
  for (const ToolCall& call : result.tool_calls) {
    said.name += call.name;
    said.arguments += call.arguments;
  }
  return said.all();
}

// Three models, of which two fit at once, come and go under requests of all protocols.
TEST(ServeModels, SixteenClientsOverAllProtocols) {
  const std::vector<Asked> asked = all_asked();
  std::map<std::string, std::shared_ptr<const Model>> variants;
  for (const std::string& name : kNames) variants[name] = variant(name);
  std::vector<std::string> expected;
  for (const Asked& one : asked) expected.push_back(said_alone(one, variants[one.model]));
  ThreeModels models({.max_loaded = 2, .idle = milliseconds(20)});
  const auto client = [&](std::size_t number) {
    for (std::size_t k = 0; k < 6; ++k) {
      const std::size_t i = (number * 7 + k * 11) % asked.size();
      const Asked& one = asked[i];
      const bool stream = (number + k) % 2 == 0;
      Json body = asked_body(one, stream);
      if (k == 3) body["keep_alive"] = 0;
      if (number % 4 == 3) {  // one that leaves
        body["stream"] = true;
        const auto exchange = models.served->ask(path_of(one.form), body);
        if (k % 2 == 1) exchange->wait_for_events(k);
        exchange->close();
        continue;
      }
      const auto exchange = models.served->answer(path_of(one.form), body);
      EXPECT_EQ(exchange->status(), 200) << exchange->body();
      EXPECT_EQ(said_in(one.form, *exchange), expected[i]) << body;
    }
  };
  std::vector<std::thread> clients;
  for (std::size_t i = 0; i < 16; ++i) clients.emplace_back(client, i);
  for (std::thread& one : clients) one.join();
  EXPECT_GT(models.served->metrics().model_unloads.value(), 0U);
}

}  // namespace
}  // namespace cria::serve::test
