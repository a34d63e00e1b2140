#include "tools/serve/http/exchange_state.h"

#include <algorithm>

#include "tools/serve/http/response.h"

namespace cria::serve {
namespace {

class Handle final : public Exchange {
 public:
  explicit Handle(std::shared_ptr<ExchangeState> state) : state_(std::move(state)) {}
  ~Handle() override { state_->drop(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  const Request& request() const override { return state_->request; }
  void answer(int status, std::string_view type, std::string body, const Headers& more) override {
    state_->answer(status, type, std::move(body), more);
  }
  void begin_events(StreamForm form) override { state_->begin_events(std::move(form)); }
  void event(std::string_view data, std::string_view name) override { state_->event(data, name); }
  void end_events() override { state_->end_events(); }
  void fail(int status, std::string body, const Headers& more) override {
    state_->fail(status, std::move(body), more);
  }
  bool closed() const noexcept override { return state_->closed(); }
  void on_closed(std::function<void()> call) override { state_->on_closed(std::move(call)); }
  RequestRecord& record() override { return state_->record; }

 private:
  const std::shared_ptr<ExchangeState> state_;
};

}  // namespace

std::shared_ptr<Exchange> ExchangeState::handle() {
  return std::make_shared<Handle>(shared_from_this());
}

void ExchangeState::wake_locked() {
  if (awake_) return;
  awake_ = true;
  wake_(shared_from_this());
}

void ExchangeState::answer(int status, std::string_view content_type, std::string body,
                           const Headers& more) {
  std::function<void()> dropped, silence;  // destroyed outside of the lock
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  if (head_out_ || !events_.empty())
    append_event(body, protocol_of(request.path) == Protocol::Messages ? "error" : "");
  else
    answer_ = Batch::Answer{status, std::string(content_type), std::move(body), more};
  ended_ = true;
  dropped.swap(on_closed_);
  silence.swap(form_.on_silence);
  wake_locked();
}

void ExchangeState::append_event(std::string_view data, std::string_view name) {
  if (form_.lines) {
    events_.append(data).append("\n");
    return;
  }
  if (!name.empty()) events_.append("event: ").append(name).append("\n");
  events_.append("data: ").append(data).append("\n\n");
}

void ExchangeState::begin_events(StreamForm form) {
  const std::lock_guard lock(mutex_);
  if (ended_ || closed_) return;  // close() has dropped the form, which may hold this
  stream_ = true;
  std::swap(form_, form);  // the old one is destroyed outside of the lock
  if (form_.lines && !form_.late_head) wake_locked();  // for the head
}

void ExchangeState::event(std::string_view data, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (ended_ || closed_) return;
  stream_ = true;
  const std::size_t unread = events_.size() + unsent_;
  if (unread == 0) uncounted_ = 0;
  if (unread > kMaxUnsent + uncounted_) {
    events_.clear();
    closed_ = true;
  } else {
    append_event(data, name);
    uncounted_ += data.size() - std::min(data.size(), kMaxCounted);
  }
  wake_locked();
}

void ExchangeState::end_events() {
  std::function<void()> dropped, silence;
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  stream_ = ended_ = true;
  dropped.swap(on_closed_);
  silence.swap(form_.on_silence);
  wake_locked();
}

void ExchangeState::fail(int status, std::string body, const Headers& more) {
  answer(status, kJsonType, std::move(body), more);
}

void ExchangeState::drop() {
  fail(500, error_body(request, 500, "the request was dropped without an answer", "internal_error"),
       {});
}

void ExchangeState::on_closed(std::function<void()> call) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  on_closed_.swap(call);
  if (closed_) wake_locked();  // the network thread calls it
}

bool ExchangeState::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

ExchangeState::Batch ExchangeState::take() {
  Batch batch;
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    awake_ = false;
    batch = {std::move(answer_), std::move(events_), stream_, form_.lines, ended_};
    answer_.reset();
    events_.clear();
    unsent_ += batch.events.size();
    if (!batch.events.empty()) head_out_ = true;
    if (closed_ && !ended_) call.swap(on_closed_);
  }
  if (call) call();
  return batch;
}

void ExchangeState::close() {
  std::function<void()> call, silence;
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    closed_ = true;
    call.swap(on_closed_);
    silence.swap(form_.on_silence);
  }
  if (call) call();
}

std::string ExchangeState::break_silence() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    if (!stream_ || ended_ || !events_.empty()) return "";
    call = form_.on_silence;
    if (!call) {
      head_out_ = true;
      return ": keep-alive\n\n";
    }
  }
  call();  // without the lock: it sends an event
  return "";
}

}  // namespace cria::serve
