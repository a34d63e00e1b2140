// Answers to the questions of standard input, a line each, four at a time in one pass over the
// weights: batch MODEL. A server does the same with requests as they come: add() between steps.
#include <cria/scheduler.h>

#include <deque>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto model = cria::Model::load(argv[1]);
  cria::Engine engine(*model, {.n_ctx = 512, .sequences = 4});
  cria::Scheduler scheduler(engine);
  cria::ChatOptions how;
  how.chat_template = std::make_shared<const cria::ChatTemplate>(
      cria::ChatTemplate::from_vocabulary(model->tokenizer().vocabulary()));
  cria::GenerateOptions greedy;
  greedy.sampler.temperature = 0;
  greedy.max_tokens = 100;

  std::deque<std::string> answers;  // its strings keep their addresses
  for (std::string question; std::getline(std::cin, question);) {
    cria::AnswerRequest request =
        cria::chat_request(*model, 512, {{"user", question}}, greedy, how);
    std::string& answer = answers.emplace_back(question + " ");
    request.on_end = [&answer](const cria::GenerateResult& result,
                               const std::optional<cria::Error>& error) {
      answer += error ? error->what() : result.text;
    };
    scheduler.add(std::move(request));
  }
  while (scheduler.step()) {
  }
  for (const std::string& answer : answers) std::cout << answer << '\n';
}
