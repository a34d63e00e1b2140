#include <iostream>

#include "engine/session.h"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto model = cria::Model::load(argv[1]);
  cria::Session session(*model, {});
  cria::GenerateOptions greedy;
  greedy.sampler.temperature = 0;
  session.chat({{"user", "What is the capital of France?"}}, greedy, [](std::string_view text) {
    std::cout << text;
    return true;
  });
}
