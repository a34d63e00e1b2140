#include "engine/calibrate/calibration_text.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "engine/engine.h"
#include "engine/model_parts.h"
#include "engine/scheduler.h"

namespace cria {
namespace {

constexpr std::uint32_t kAtOnce = 16;  // windows
constexpr std::size_t kQuestionTokens = 96;
constexpr std::size_t kTurns = 4;           // questions of a dialogue
constexpr std::size_t kEmptyQuestions = 8;  // in a window, after which it ends with prose

// The text around a question in a template.
struct QuestionForm {
  std::vector<TokenId> opening;  // all tokens before the question, for given earlier messages
  std::vector<std::string> end;  // a text that ends it, if no control token does
};

GenerateOptions free_sampling(std::uint64_t seed, std::size_t max_tokens) {
  GenerateOptions how;
  how.sampler.temperature = 1;
  how.sampler.top_k = 0;
  how.sampler.top_p = 1;
  how.sampler.min_p = 0;
  how.sampler.seed = seed;
  how.max_tokens = static_cast<std::int64_t>(max_tokens);
  how.speculate = Speculate::Off;
  return how;
}

// One window on its way: requests continue it until it is full.
class OwnWindow {
 public:
  OwnWindow(const Model& model, std::shared_ptr<const ChatTemplate> dialogues, std::size_t window,
            std::uint64_t seed)
      : model_(model), template_(std::move(dialogues)), window_(window), seed_(seed) {}

  [[nodiscard]] bool full() const { return ids_.size() >= window_; }
  [[nodiscard]] std::vector<TokenId> take() {
    ids_.resize(window_);
    return std::move(ids_);
  }
  [[nodiscard]] std::size_t left() const { return window_ - ids_.size(); }

  // Returns the next request of a window that is not full; nothing if that filled it.
  std::optional<AnswerRequest> next() {
    while (!full()) {
      AnswerRequest request = template_ == nullptr ? prose() : asks() ? question() : answer();
      if (request.prompt.size() + 1 < left()) {
        prompt_ = request.prompt;
        return request;
      }
      append(request.prompt);  // cut at the end of the window
    }
    return std::nullopt;
  }

  void add(const GenerateResult& result) {
    if (template_ == nullptr) {
      prompt_.insert(prompt_.end(), result.tokens.begin(), result.tokens.end());
      const Vocabulary& vocabulary = model_.vocabulary();
      const std::optional<TokenId> end = vocabulary.eot ? vocabulary.eot : vocabulary.eos;
      if (result.end_token && end) prompt_.push_back(*end);  // the next text follows from BOS
      append(prompt_);
    } else if (asks()) {
      add_question(result);
    } else {
      messages_.push_back({"assistant", result.text});
      prompt_.insert(prompt_.end(), result.tokens.begin(), result.tokens.end());
      if (prompt_.size() >= left() || messages_.size() == 2 * kTurns) end_dialogue();
    }
  }
  /// The template or the model refused: the rest is prose.
  void give_up_dialogues() {
    template_ = nullptr;
    messages_.clear();
  }

 private:
  [[nodiscard]] bool asks() const {
    return messages_.empty() || messages_.back().role == "assistant";
  }
  [[nodiscard]] std::uint64_t next_seed() { return (seed_ << 16) + steps_++; }

  void append(const std::vector<TokenId>& tokens) {
    const std::size_t n = std::min(tokens.size(), left());
    ids_.insert(ids_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
  }

  AnswerRequest prose() {
    const Vocabulary& vocabulary = model_.vocabulary();
    AnswerRequest request;
    request.prompt = {vocabulary.bos.value_or(vocabulary.eos.value_or(0))};
    request.options = free_sampling(next_seed(), left() - 1);
    return request;
  }

  AnswerRequest question() {
    const QuestionForm form = question_form();
    AnswerRequest request;
    request.prompt = form.opening;
    request.options = free_sampling(next_seed(), kQuestionTokens);
    request.options.stop = form.end;
    return request;
  }

  AnswerRequest answer() {
    const std::size_t room = left();
    ChatOptions how;
    how.chat_template = template_;
    AnswerRequest request = chat_request(model_, model_.context_length(), messages_,
                                         free_sampling(next_seed(), room), how);
    if (request.prompt.size() < room)
      request.options.max_tokens = static_cast<std::int64_t>(room - request.prompt.size());
    return request;
  }

  [[nodiscard]] std::vector<TokenId> rendered(const std::vector<ChatMessage>& messages,
                                              bool opened) const {
    RenderOptions how;
    how.add_generation_prompt = opened;
    return template_->encode(model_.tokenizer(), messages, how);
  }

  // Any question is surrounded by what two questions of one letter have in common.
  [[nodiscard]] QuestionForm question_form() const {
    std::vector<ChatMessage> one = messages_, other = messages_;
    one.push_back({"user", "a"});
    other.push_back({"user", "b"});
    const std::vector<TokenId> a = rendered(one, true), b = rendered(other, true);
    const auto differ = std::ranges::mismatch(a, b).in1;
    QuestionForm form{{a.begin(), differ}, {}};
    if (differ == a.end()) throw Error(model_.path(), "the chat template omits the question");
    const std::string behind = model_.tokenizer().decode(std::vector<TokenId>(differ + 1, a.end()));
    const std::size_t begin = behind.find_first_not_of(" \n");
    if (begin != std::string::npos)
      form.end.push_back(behind.substr(begin, behind.find_first_of(" \n", begin) - begin));
    return form;
  }

  void add_question(const GenerateResult& result) {
    const std::vector<TokenType>& types = model_.vocabulary().types;
    const auto end = std::ranges::find_if(result.tokens, [&](TokenId id) {
      return types[static_cast<std::size_t>(id)] == TokenType::Control;
    });
    std::string text =
        end == result.tokens.end()
            ? result.text
            : model_.tokenizer().decode(std::vector<TokenId>(result.tokens.begin(), end));
    const std::size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string::npos) {
      if (++empty_ == kEmptyQuestions) give_up_dialogues();
      return;
    }
    messages_.push_back({"user", text.substr(begin, text.find_last_not_of(" \n") + 1 - begin)});
  }

  // A dialogue that ended is taken as its template renders it; one that was cut, as it was written.
  void end_dialogue() {
    append(prompt_.size() >= left() ? prompt_ : rendered(messages_, false));
    messages_.clear();
  }

  const Model& model_;
  std::shared_ptr<const ChatTemplate> template_;  // null: prose
  const std::size_t window_;
  const std::uint64_t seed_;
  std::uint64_t steps_ = 0;
  std::size_t empty_ = 0;
  std::vector<TokenId> ids_, prompt_;
  std::vector<ChatMessage> messages_;
};

// Writes windows side by side.
class OwnWriter {
  struct Ended {
    OwnWindow* window;
    GenerateResult result;
    std::optional<Error> error;
  };

 public:
  OwnWriter(const Model& model, std::size_t n, const OwnTextOptions& options)
      : options_(options), engine_(model, engine_options(options, n)), scheduler_(engine_) {
    std::shared_ptr<const ChatTemplate> dialogues;
    if (!model.vocabulary().chat_template.empty())
      dialogues = std::make_shared<ChatTemplate>(ChatTemplate::from_vocabulary(model.vocabulary()));
    windows_.reserve(n);  // requests refer to them
    for (std::size_t i = 0; i < n; ++i)
      windows_.emplace_back(model, i % 2 == 1 ? dialogues : nullptr, options.window, i);
  }

  std::vector<std::vector<TokenId>> run() {
    for (OwnWindow& window : windows_) add_next(window);
    while (scheduler_.step() || !ended_.empty()) {
      for (const Ended& ended : std::exchange(ended_, {})) go_on(ended);
      if (options_.on_progress && !options_.on_progress(tokens())) return {};
    }
    std::vector<std::vector<TokenId>> windows;
    for (OwnWindow& window : windows_) windows.push_back(window.take());
    return windows;
  }

 private:
  static EngineOptions engine_options(const OwnTextOptions& options, std::size_t n) {
    EngineOptions engine;
    engine.n_ctx = static_cast<std::uint32_t>(options.window);
    engine.sequences = static_cast<std::uint32_t>(std::min<std::size_t>(kAtOnce, n));
    engine.threads = options.threads;
    engine.kernels = options.kernels;
    return engine;
  }

  void add_next(OwnWindow& window) {
    std::optional<AnswerRequest> request;
    try {
      request = window.next();
    } catch (const Error&) {
      window.give_up_dialogues();
      request = window.next();
    }
    if (!request) return;
    request->on_end = [this, &window](GenerateResult result, const std::optional<Error>& error) {
      ended_.push_back({&window, std::move(result), error});
    };
    scheduler_.add(std::move(*request));
  }

  void go_on(const Ended& ended) {
    if (ended.error) throw Error(*ended.error);
    try {
      ended.window->add(ended.result);
    } catch (const Error&) {
      ended.window->give_up_dialogues();
    }
    add_next(*ended.window);
  }

  [[nodiscard]] std::size_t tokens() const {
    std::size_t left = 0;
    for (const OwnWindow& window : windows_) left += window.left();
    return options_.window * windows_.size() - left;
  }

  const OwnTextOptions& options_;
  std::vector<OwnWindow> windows_;
  std::vector<Ended> ended_;  // answers of the last step
  Engine engine_;
  Scheduler scheduler_;
};

}  // namespace

std::vector<std::vector<TokenId>> own_windows(const Model& model, std::size_t n,
                                              const OwnTextOptions& options) {
  return n == 0 ? std::vector<std::vector<TokenId>>() : OwnWriter(model, n, options).run();
}

}  // namespace cria
