/* overhead MODEL TOKENS ROUNDS THREADS (0: physical cores): prints tokens per second of generating
 * through the C interface, one line per round, without the first token. overhead.py builds and
 * runs it. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "engine/c/cria.h"

static void check(cria_status status) {
  if (status >= 0) return;
  fprintf(stderr, "overhead: %s\n", cria_last_error());
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const long tokens = atol(argv[2]), rounds = atol(argv[3]);
  cria_model model;
  cria_engine engine;
  cria_sampler greedy;
  cria_engine_options options = CRIA_STRUCT(cria_engine_options);
  options.n_ctx = (uint32_t)tokens + 64;
  options.no_prefix_cache = 1;
  options.threads = (uint32_t)atol(argv[4]);
  check(cria_model_load(argv[1], NULL, &model));
  check(cria_engine_create(model, &options, &engine));
  check(cria_sampler_create(model, &greedy));
  check(cria_sampler_set(greedy, "temperature", 0));
  for (long round = 0; round <= rounds; ++round) { /* one that is not counted */
    const cria_token prompt = 1;
    cria_request request = CRIA_STRUCT(cria_request);
    cria_piece piece = CRIA_STRUCT(cria_piece);
    cria_result result = CRIA_STRUCT(cria_result);
    cria_answer answer;
    request.tokens = &prompt;
    request.n_tokens = 1;
    request.sampler = greedy;
    request.max_tokens = tokens;
    request.ignore_eos = 1;
    request.speculation = CRIA_SPECULATE_OFF;
    check(cria_answer_begin(engine, &request, &answer));
    check(cria_answer_next(answer, &piece));
    const double begin = now();
    cria_status status;
    while ((status = cria_answer_next(answer, &piece)) == CRIA_OK) continue;
    check(status);
    const double seconds = now() - begin;
    check(cria_answer_result(answer, &result));
    if (result.n_tokens != (size_t)tokens) return 1;
    if (round > 0) printf("%.3f\n", (double)(tokens - 1) / seconds);
    check(cria_answer_free(answer));
  }
  return 0;
}
