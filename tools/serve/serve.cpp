#include "tools/serve/serve.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "tools/serve/http/response.h"
#include "tools/serve/page/page.h"
#include "tools/terminal/terminal.h"

namespace cria::serve {

namespace {

constexpr int kOver = SIGUSR2;  // wakes the thread at the end

sigset_t ending_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, kOver}) {
    struct sigaction action = {};
    sigaction(number, nullptr, &action);
    if (number != SIGHUP || action.sa_handler != SIG_IGN) sigaddset(&set, number);  // nohup
  }
  return set;
}

}  // namespace

EndSignals::EndSignals(std::function<void()> on_first, std::function<int()> on_second) {
  const sigset_t set = ending_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this, first = std::move(on_first), second = std::move(on_second)] {
    listen(first, second);
  });
}

EndSignals::~EndSignals() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  pthread_kill(thread_.native_handle(), kOver);
  thread_.join();
  // The signals stay blocked: the program ends, and a further one would end it with another exit
  // code.
}

void EndSignals::listen(const std::function<void()>& on_first,
                        const std::function<int()>& on_second) {
  const sigset_t set = ending_signals();
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    {
      const std::lock_guard lock(mutex_);
      if (number == kOver) {
        if (over_) return;
        continue;
      }
      if (seen_) tools::exit_now(on_second());
      seen_ = true;
    }
    on_first();
    came_.notify_all();
  }
}

void EndSignals::wait() {
  std::unique_lock lock(mutex_);
  came_.wait(lock, [this] { return seen_; });
}

namespace {

constexpr std::chrono::milliseconds kLastAnswers{1000};  // for answers to go out after the grace
constexpr std::chrono::milliseconds kLatestEnd{1900};    // after the grace, whatever still computes

Route health_route(const char* path, const std::atomic<bool>& ready) {
  return {"GET", path,
          [&ready](const std::shared_ptr<Exchange>& exchange) {
            if (ready) return exchange->answer(200, kJsonType, R"({"status":"ok"})");
            exchange->answer(
                503, kJsonType,
                error_body(exchange->request(), 503, "the model is being loaded", "loading"),
                {{"Retry-After", "1"}});
          },
          true, "/health"};
}

Route metrics_route(const Metrics& metrics) {
  return {"GET", "/metrics", [&metrics](const std::shared_ptr<Exchange>& exchange) {
            exchange->answer(200, "text/plain; version=0.0.4; charset=utf-8", metrics.text());
          }};
}

Route page_route(const tools::PageFile& file) {
  return {"GET", std::string(file.path),
          [&file](const std::shared_ptr<Exchange>& exchange) {
            exchange->answer(200, std::string(file.type), std::string(file.bytes),
                             {{"Content-Security-Policy", std::string(tools::chat_page_policy())},
                              {"Referrer-Policy", "no-referrer"}});
          },
          true};
}

/// Ends the program if it takes longer: a step of a large model may.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds most) : thread_([this, most] { watch(most); }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  void watch(std::chrono::milliseconds most) {
    std::unique_lock lock(mutex_);
    if (!ended_.wait_for(lock, most, [this] { return over_; })) tools::exit_now(0);
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// True while a second signal would interrupt something.
class Ending {
 public:
  void watch(const Server* server) {
    const std::lock_guard lock(mutex_);
    server_ = server;
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  /// The exit code of a program that ends now. A client has the end of its answer a moment before
  /// that is known here.
  int exit_code() {
    for (int i = 0; i < 10; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      if (nothing_is_cut()) return 0;
    return 130;
  }

 private:
  bool nothing_is_cut() {
    const std::lock_guard lock(mutex_);
    return finished_ || (server_ != nullptr && server_->all_answered());
  }

  std::mutex mutex_;
  const Server* server_ = nullptr;
  bool finished_ = false;
};

void print_start(const Server& server, const Backend& backend, const ServeOptions& options) {
  const LogOptions& log = options.server.log;
  const auto say = [&log](const std::string& text) { tools::print_line(message_line(text, log)); };
  if (!server.loopback() && options.server.access.keys.empty())
    say("cria: warning: other machines can reach this server, and no API key is asked for "
        "(--api-key-file "
        "FILE)");
  if (log.texts) say("cria: note: the log has the texts of prompts and answers (--log-prompts)");
  if (options.web) say("cria: chat in a browser at " + server.url() + "/");
  say("cria: serving " + backend.model_name() + " at " + server.url() + " (" + backend.summary() +
      ")");
}

/// Running answers have their grace; then all is answered that there is.
void end(Server& server, Backend& backend, std::chrono::milliseconds grace) {
  server.refuse();
  backend.shut_down(grace);
  if (server.wait_until_idle(grace + kLastAnswers / 2)) return;
  server.fail_all();
  server.wait_until_idle(kLastAnswers);
}

}  // namespace

int serve(const ServeOptions& options,
          const std::function<std::unique_ptr<Backend>(Metrics&)>& load) {
  std::atomic<bool> ready{false};
  Metrics metrics;
  // Before the model is there, there is nothing to end in order.
  Ending ending;
  EndSignals signals(
      [&ready] {
        if (!ready) tools::exit_now(0);
      },
      [&ending] { return ending.exit_code(); });
  std::vector<Route> routes{health_route("/health", ready), health_route("/v1/health", ready),
                            metrics_route(metrics)};
  if (options.web)
    for (const tools::PageFile& file : tools::chat_page_files()) routes.push_back(page_route(file));
  std::unique_ptr<Deadline> deadline;  // outlives what it watches
  std::unique_ptr<Backend> backend;
  Server server(options.server, routes, metrics,
                [](const std::string& line) { tools::print_line(line); });
  backend = load(metrics);
  for (Route& route : backend->routes()) routes.push_back(std::move(route));
  server.set_routes(std::move(routes));
  ending.watch(&server);
  ready = true;
  print_start(server, *backend, options);  // last: clients may call after this line
  signals.wait();
  deadline = std::make_unique<Deadline>(options.grace + kLatestEnd);
  end(server, *backend, options.grace);
  ending.finish();
  return 0;
}

}  // namespace cria::serve
