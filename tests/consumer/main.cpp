#include <cria/session.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto model = cria::Model::load(argv[1]);
  cria::Session session(*model, {.n_ctx = 256, .kv_type = cria::parse_kv_type("f32")});
  model.reset();  // the session has its share
  cria::GenerateOptions greedy;
  greedy.sampler.temperature = 0;
  const cria::GenerateResult result =
      session.chat({{"user", "What is the capital of France?"}}, greedy);
  std::cout << result.text << " (" << name(result.reason) << ")\n"
            << session.model().tokenizer().encode(result.text, false, false).size() << " tokens\n";
}
