/** \file
 * cria from C: models, many answers at once, tokens, logits, embeddings. C11 and later, C++.
 *
 *   cria_model model;
 *   cria_engine engine;
 *   cria_answer answer;
 *   if (cria_model_load("model.gguf", NULL, &model) != CRIA_OK) die(cria_last_error());
 *
 * What all functions have in common:
 * - They return a status. If it is an error, cria_last_error() in the same thread returns its text.
 * The library prints nothing, has no callbacks and touches no signals.
 * - Handles are numbers that are looked up. A freed handle, or one of another kind, gives
 * CRIA_ERROR_HANDLE, and nothing happens. 0 is never a handle. Handles may be freed in any order:
 * what an engine, sequence or answer needs is kept as long as it needs it.
 * - All functions may be called by any thread at any time. Calls that compute on one engine take
 * turns, pass by pass, in the order in which they ask. Answers of one engine are written together:
 * threads that wait for them share its passes over the weights.
 * - The float mode of the calling thread (how it rounds, subnormal numbers) changes no result, and
 * is the same afterwards.
 * - Pointers passed in are read during the call and not kept. Pointers returned belong to the
 * handle that they came from. Each comment says how long they live. A thread that holds such
 * pointers must be the only one that uses the handle. Do not free an
 * answer while another thread is in a call with it: cancel it, and free it after the call.
 * - A process that was forked from one that has had an engine lacks its threads: it must not call
 * the library (before exec).
 * - Structs begin with their size, which the caller sets (CRIA_STRUCT does). Members after the size
 * are 0 for the default. A library that is newer or older than the program uses the members that
 * both know; an older one refuses others that are not 0.
 * - Texts are UTF-8. A text that comes with a size may contain any bytes; texts without a size end
 * with '\0'.
 * - Functions that fill an array of the caller: `capacity` counts its elements, and *count gets the
 * number needed. If the array is too small, they return CRIA_ERROR_CAPACITY and write only the
 * count; (NULL, 0) asks for it. */
#ifndef CRIA_CRIA_H
#define CRIA_CRIA_H

#include <stddef.h>
#include <stdint.h>

/** Marks every function that the library exports. */
#if defined(__GNUC__)
#define CRIA_API __attribute__((visibility("default")))
#else
#define CRIA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A struct with its size, all else 0: `cria_request request = CRIA_STRUCT(cria_request);` */
#ifdef __cplusplus
#define CRIA_STRUCT(type)          \
  [] {                             \
    type with_size{};              \
    with_size.size = sizeof(type); \
    return with_size;              \
  }()
#else
#define CRIA_STRUCT(type) ((type){.size = sizeof(type)})
#endif

typedef int32_t cria_token; /**< index in the model's vocabulary */

typedef int32_t cria_status; /**< CRIA_OK … CRIA_ERROR_INTERNAL; below 0: an error */
enum {
  CRIA_OK = 0,
  CRIA_END = 1,             /**< the answer has no more pieces */
  CRIA_AGAIN = 2,           /**< there will be another piece, but it is not computed yet */
  CRIA_ERROR_DATA = -1,     /**< a bad file, a value out of range, a computation that failed */
  CRIA_ERROR_ARGUMENT = -2, /**< a wrong call: NULL, an unknown name */
  CRIA_ERROR_HANDLE = -3,   /**< not a handle, or one that has been freed */
  CRIA_ERROR_CAPACITY = -4, /**< an array of the caller is too small */
  CRIA_ERROR_MEMORY = -5,   /**< not enough memory */
  CRIA_ERROR_CONTEXT = -6,  /**< a conversation or prompt that does not fit into the context */
  CRIA_ERROR_CONSTRAINT =
      -7, /**< a schema, grammar or expression that cannot be enforced or followed */
  CRIA_ERROR_CANCELLED = -8, /**< cria_engine_cancel() */
  CRIA_ERROR_INTERNAL = -9   /**< a bug of the library */
};

/** The text of the last error of this thread, "" before there was one; valid until its next error.
 */
CRIA_API const char* cria_last_error(void);
/** The version, "0.1.0"; valid forever. */
CRIA_API const char* cria_version(void);
/** The instruction set that the kernels use here, such as "avx512vnni"; valid forever. "" if
 * $CRIA_ISA names one that does not run here. */
CRIA_API const char* cria_isa(void);

/* Handles. Each kind has a type of its own, so that the compiler tells them apart. */
/** A model: a file with its tokenizer and chat template. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_model;
/** Runs a model: threads and KV cache. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_engine;
/** A sequence of tokens with their KV cache. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_sequence;
/** Sampler options. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_sampler;
/** A constraint on the text of an answer. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_constraint;
/** An answer: queued, being generated, or complete. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_answer;
/** An open GGUF file: fields and tensors. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_gguf;
/** A GGUF file that is being written. */
typedef struct {
  uint64_t id; /**< 0: none */
} cria_gguf_writer;

/* ---- Models: a file with its tokenizer and chat template. Immutable. ---- */

/** Options of cria_model_load(). */
typedef struct {
  size_t size;              /**< CRIA_STRUCT sets it */
  int32_t no_mmap;          /**< 1: read the file into memory instead of mapping it */
  int32_t mlock;            /**< 1: lock it in memory */
  const char* const* loras; /**< adapters: paths of GGUF files */
  const float* lora_scales; /**< one for each adapter; NULL: all 1 */
  size_t n_loras;           /**< number of adapters */
} cria_model_options;

/** options: NULL for the defaults. The caller owns *model: cria_model_free(). */
CRIA_API cria_status cria_model_load(const char* path, const cria_model_options* options,
                                     cria_model* model);
/** Engines of the model keep what they need of it. */
CRIA_API cria_status cria_model_free(cria_model model);

/** Properties of a model. */
typedef struct {
  size_t size;               /**< CRIA_STRUCT sets it */
  const char* path;          /**< texts live as long as the handle */
  const char* name;          /**< as in the file, or "" */
  uint32_t n_vocab;          /**< number of tokens, and of logits per position */
  uint32_t n_ctx;            /**< positions that it was trained for */
  uint32_t n_embd;           /**< floats of an embedding */
  int32_t has_chat_template; /**< 1: it has one of its own; 0: a plain one is used */
  cria_token bos, eos;       /**< -1: none */
} cria_model_info;
/** Fills a struct whose size is set. */
CRIA_API cria_status cria_model_get_info(cria_model model, cria_model_info* info);

enum {
  CRIA_SPECIAL = 1, /**< tokenize: BOS and EOS as the model wants them; detokenize: the texts of
                       control tokens too */
  CRIA_MARKERS = 2  /**< tokenize: control tokens written in the text become their ids */
};
/** flags: CRIA_SPECIAL | CRIA_MARKERS or 0. */
CRIA_API cria_status cria_tokenize(cria_model model, const char* text, size_t text_size,
                                   uint32_t flags, cria_token* tokens, size_t capacity,
                                   size_t* count);
/** The bytes of tokens as their text, without a '\0'. flags: CRIA_SPECIAL or 0. */
CRIA_API cria_status cria_detokenize(cria_model model, const cria_token* tokens, size_t n_tokens,
                                     uint32_t flags, char* text, size_t capacity, size_t* count);

/** A message of a conversation. This struct never grows: everything else goes into `json`. */
typedef struct {
  const char* role;    /**< "system", "user", "assistant", "tool" */
  const char* content; /**< may be NULL if there is `json` */
  const char* json;    /**< NULL, or the complete message as a JSON object, used instead of the
                          content: tool calls … */
} cria_message;

/** The conversation as the model's template writes it, with the opening of the answer. variables: a
 * JSON object of further variables for the template ("tools", "enable_thinking" …), or NULL. */
CRIA_API cria_status cria_apply_template(cria_model model, const cria_message* messages,
                                         size_t n_messages, const char* variables, char* text,
                                         size_t capacity, size_t* count);
/** The same as tokens. Only text of the template becomes control tokens, never text of a message.
 */
CRIA_API cria_status cria_template_tokens(cria_model model, const cria_message* messages,
                                          size_t n_messages, const char* variables,
                                          cria_token* tokens, size_t capacity, size_t* count);

/* ---- Samplers: how tokens are sampled. Read when an answer begins; may be used again. ---- */

/** With the defaults of `cria run`: those that the model's file names, else temperature 0.8, top_k
 * 40, top_p 0.95, min_p 0.05. */
CRIA_API cria_status cria_sampler_create(cria_model model, cria_sampler* sampler);
/** Answers that have begun with it continue. */
CRIA_API cria_status cria_sampler_free(cria_sampler sampler);
/** name: temperature (0: the most likely token), dynatemp_range, dynatemp_exponent, top_k, top_p,
 * min_p, typical_p, top_n_sigma, xtc_probability, xtc_threshold, repeat_penalty, repeat_last_n,
 * presence_penalty, frequency_penalty, dry_multiplier, dry_base, dry_allowed_length, dry_last_n,
 * mirostat, mirostat_tau, mirostat_eta: as the options of `cria run`, whose help describes them.
 * CRIA_ERROR_DATA for a value out of range. */
CRIA_API cria_status cria_sampler_set(cria_sampler sampler, const char* name, double value);
/** The same seed gives the same answer; without a seed each answer gets another one. */
CRIA_API cria_status cria_sampler_set_seed(cria_sampler sampler, uint64_t seed);
/** The sampling steps in their order:
 * "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature". */
CRIA_API cria_status cria_sampler_set_steps(cria_sampler sampler, const char* steps);
/** Added to the logit of a token before everything else; -INFINITY forbids it. */
CRIA_API cria_status cria_sampler_set_bias(cria_sampler sampler, cria_token token, float bias);
/** Texts that end repetitions for DRY, instead of the default ones. */
CRIA_API cria_status cria_sampler_set_dry_breakers(cria_sampler sampler, const char* const* texts,
                                                   size_t n_texts);

/* ---- Constraints: what an answer's text must look like. Immutable; for any model. ---- */

/** A JSON Schema, at most 256 KiB. CRIA_ERROR_CONSTRAINT for what is not supported. The caller owns
 * *constraint: cria_constraint_free(). */
CRIA_API cria_status cria_constraint_json_schema(const char* schema, cria_constraint* constraint);
/** A grammar in GBNF with a rule `root`; otherwise as cria_constraint_json_schema(). */
CRIA_API cria_status cria_constraint_grammar(const char* grammar, cria_constraint* constraint);
/** A regular expression (ECMA 262) for all of the text; otherwise as cria_constraint_json_schema().
 */
CRIA_API cria_status cria_constraint_regex(const char* expression, cria_constraint* constraint);
/** *accepts: 1 if the text fulfils the constraint; *begins: 1 if some text that fulfils it begins
 * with this one. Each may be NULL. */
CRIA_API cria_status cria_constraint_check(cria_constraint constraint, const char* text,
                                           size_t text_size, int32_t* accepts, int32_t* begins);
/** Answers that have begun with it continue. */
CRIA_API cria_status cria_constraint_free(cria_constraint constraint);

/* ---- Engines: threads, and the KV cache of sequences. ---- */

/** Options of cria_engine_create(). */
typedef struct {
  size_t size;              /**< CRIA_STRUCT sets it */
  uint32_t n_ctx;           /**< max context per sequence; 0: the training context, up to 4096 */
  uint32_t n_batch;         /**< max tokens per pass, up to 4096; 0: 512 */
  uint32_t threads;         /**< up to 1024; 0: physical cores */
  uint32_t threads_prefill; /**< for passes of several tokens; 0: as threads */
  uint32_t sequences;       /**< max live sequences, including answers, up to 1024; 0: 1 */
  int32_t no_prefix_cache;  /**< 1: disable the prefix cache */
  uint64_t positions;       /**< KV positions of all sequences; 0: n_ctx for each */
  const char* kv_type;      /**< type of the KV cache: "f16", "f32", "q8_0"; NULL: "f16" */
  cria_model draft;         /**< draft model for speculative decoding, with the same vocabulary (but
                               for up to 128 padding tokens); {0}: none */
} cria_engine_options;

/** Allocates the engine's memory. options: NULL for the defaults. The caller owns *engine:
 * cria_engine_free(). */
CRIA_API cria_status cria_engine_create(cria_model model, const cria_engine_options* options,
                                        cria_engine* engine);
/** Its answers end as interrupted; handles of its answers and sequences stay valid until they are
 * freed, too. */
CRIA_API cria_status cria_engine_free(cria_engine engine);
/** The options with the defaults filled in; `draft` is 0, and kv_type is valid forever. */
CRIA_API cria_status cria_engine_get_options(cria_engine engine, cria_engine_options* options);
/** Ends everything that the engine computes now, as soon as the current node of the graph is done:
 * its answers are interrupted, other calls return CRIA_ERROR_CANCELLED. Later calls are not
 * affected. */
CRIA_API cria_status cria_engine_cancel(cria_engine engine);
/** One pass over the weights, for all answers that are not at their end; *busy (may be NULL): 1 if
 * there is more to do. Not needed if you call cria_answer_next(). */
CRIA_API cria_status cria_engine_step(cria_engine engine, int32_t* busy);

/* ---- Answers ---- */

/** Speculative decoding. It never changes an answer. */
enum {
  CRIA_SPECULATE_AUTO = 0,   /**< when measurements show that it is faster */
  CRIA_SPECULATE_OFF = 1,    /**< never */
  CRIA_SPECULATE_LOOKUP = 2, /**< n-gram lookup in the text */
  CRIA_SPECULATE_LAYERS = 3  /**< the model's own prediction layers, which it must have */
};
/** A requested answer. */
typedef struct {
  size_t size; /**< CRIA_STRUCT sets it */
  /* What is answered, one of three: a conversation, a text, tokens. */
  const cria_message* messages; /**< a conversation, whose last message is answered */
  size_t n_messages;            /**< number of messages */
  const char* variables;        /**< for the template, as in cria_apply_template() */
  const char* text; /**< a text to continue: with BOS as the model wants it; names of control tokens
                       become these */
  size_t text_size; /**< in bytes */
  const cria_token* tokens; /**< tokens to continue */
  size_t n_tokens;          /**< number of tokens */
  /* How. */
  cria_sampler sampler;       /**< {0}: the defaults of cria_sampler_create() */
  cria_constraint constraint; /**< {0}: any text */
  int64_t max_tokens;         /**< 0: until something else ends it */
  const char* const* stop;    /**< stop strings, which are not part of the answer */
  size_t n_stop;              /**< number of stop strings */
  int32_t ignore_eos;         /**< 1: end-of-generation tokens are never sampled */
  int32_t speculation;        /**< CRIA_SPECULATE_… */
  int32_t logprobs;           /**< 1: log-probabilities of the answer's tokens */
  uint32_t top_logprobs;      /**< with logprobs: alternatives to report for each token */
  uint64_t scope;             /**< cached prefixes are shared within a scope only */
} cria_request;

/** Begins an answer, which waits until the engine has a sequence and positions for it. It is byte
 * for byte the answer that `cria run` gives for the same request, whatever else the engine
 * computes. The caller owns *answer: cria_answer_free(). */
CRIA_API cria_status cria_answer_begin(cria_engine engine, const cria_request* request,
                                       cria_answer* answer);
/** An answer that is not at its end is cancelled. */
CRIA_API cria_status cria_answer_free(cria_answer answer);

enum { CRIA_PART_ANSWER = 0, CRIA_PART_THINKING = 1 };
/** A piece of an answer's text. */
typedef struct {
  size_t size;  /**< CRIA_STRUCT sets it */
  int32_t part; /**< CRIA_PART_… */
  const char*
      text; /**< complete characters, then '\0'; valid until the next call with this answer */
  size_t text_size; /**< in bytes */
} cria_piece;
/** Returns the next piece: all available text; computes until there is some.
 * CRIA_END at the end, or the error that ended the answer. */
CRIA_API cria_status cria_answer_next(cria_answer answer, cria_piece* piece);
/** The same without computing: CRIA_AGAIN if it would have to compute. */
CRIA_API cria_status cria_answer_poll(cria_answer answer, cria_piece* piece);
/** Ends the answer as soon as the current node of the graph is done. Any thread may call this. */
CRIA_API cria_status cria_answer_cancel(cria_answer answer);

enum {
  CRIA_STOP_END = 0,        /**< the model ended it */
  CRIA_STOP_TEXT = 1,       /**< a stop string */
  CRIA_STOP_LENGTH = 2,     /**< max_tokens */
  CRIA_STOP_CONTEXT = 3,    /**< the context is full */
  CRIA_STOP_INTERRUPTED = 4 /**< cancelled */
};
/** Log-probability of a token. */
typedef struct {
  cria_token token; /**< the sampled token, or an alternative */
  float logprob; /**< natural logarithm of the model's own probability, before bias, penalties and
                    filters */
} cria_token_logprob;
/** A tool call. */
typedef struct {
  const char* id;        /**< the tool's answer refers to it */
  const char* name;      /**< of the tool */
  const char* arguments; /**< JSON text as the model wrote it */
} cria_tool_call;
/** An answer at its end. */
typedef struct {
  size_t size;         /**< CRIA_STRUCT sets it */
  int32_t stop_reason; /**< CRIA_STOP_… */
  const char*
      text; /**< the complete answer; all pointers here are valid as long as the answer's handle */
  size_t text_size;     /**< in bytes */
  const char* thinking; /**< what the model wrote before it, or "" */
  size_t thinking_size; /**< in bytes */
  const char* stop;     /**< the stop string that ended the answer, or "" */
  const cria_token*
      tokens;      /**< of thinking, answer and calls, without the end-of-generation token */
  size_t n_tokens; /**< number of tokens */
  const cria_tool_call* tool_calls; /**< in their order; they are not part of the text */
  size_t n_tool_calls;              /**< number of calls */
  const cria_token_logprob*
      logprobs; /**< of the tokens of the answer, if the request asked for them */
  const cria_token_logprob*
      top_logprobs;         /**< [n_logprobs][n_top]: most likely first; on a tie, lower id first */
  size_t n_logprobs, n_top; /**< sizes of the arrays above */
  size_t prompt_tokens, cached_tokens;   /**< of the prompt: evaluated, and found in the cache */
  double prompt_seconds, decode_seconds; /**< time to read the prompt, and to write the answer */
  size_t drafted_tokens;                 /**< draft tokens evaluated */
  size_t kept_tokens;                    /**< draft tokens accepted */
} cria_result;
/** Computes until the answer is at its end. Pieces may still be asked for afterwards. */
CRIA_API cria_status cria_answer_result(cria_answer answer, cria_result* result);

/* ---- Numbers ---- */

/** The logits that follow each of tokens [first, n_tokens), whatever else the engine holds:
 * [n_tokens - first][n_vocab] of `logits`. Uses a sequence of the engine while it runs; if answers
 * have all of them, it computes these until one ends. */
CRIA_API cria_status cria_logits(cria_engine engine, const cria_token* tokens, size_t n_tokens,
                                 size_t first, float* logits, size_t capacity, size_t* count);

enum {
  CRIA_POOL_MEAN = 0,    /**< the mean of the tokens' vectors */
  CRIA_POOL_LAST = 1,    /**< the last token's vector */
  CRIA_POOL_DEFAULT = 2, /**< as the file says; the mean if it says nothing */
  CRIA_POOL_FIRST = 3,   /**< the first token's vector ("cls") */
  CRIA_POOL_NONE = 4,    /**< all tokens' vectors, one after the other */
  CRIA_POOL_RANK = 5     /**< the classifier's outputs, one per label */
};
/** The embedding of a text's tokens: vectors of length 1, or a classifier's outputs as they are.
 * pooling: CRIA_POOL_… */
CRIA_API cria_status cria_embed(cria_engine engine, const cria_token* tokens, size_t n_tokens,
                                int32_t pooling, float* embedding, size_t capacity, size_t* count);
/** Writes n `scores`: how well each document answers the query, from 0 to 1. The model needs a
 * classifier. sizes: bytes of the documents. A score is the same alone or among others. */
CRIA_API cria_status cria_rerank(cria_engine engine, const char* query, size_t query_size,
                                 const char* const* documents, const size_t* sizes, size_t n,
                                 float* scores);

/** Tokens of which those from `first` (at least 1) on are scored, each by those before it. Never
 * grows. */
typedef struct {
  const cria_token* tokens; /**< read during the call */
  size_t n_tokens;          /**< number of tokens */
  size_t first;             /**< the first that is scored */
} cria_scored;
/** The score of a token. Never grows. */
typedef struct {
  double logprob;       /**< natural logarithm of the probability that the model gives the token */
  cria_token likeliest; /**< the token with the highest logit there, the lowest id among equals */
  int32_t reserved;     /**< 0 */
} cria_score;
/** Scores texts, one on each free sequence of the engine at a time (at least one). Their
 * common prefix, up to the first scored token, is evaluated once; scope: as in cria_request.
 * scores: [n_tokens - first] of each text, in their order; the same bits whatever else is computed.
 */
CRIA_API cria_status cria_score_tokens(cria_engine engine, const cria_scored* texts, size_t n_texts,
                                       uint64_t scope, cria_score* scores, size_t capacity,
                                       size_t* count);

/** Options of cria_perplexity(). */
typedef struct {
  size_t size;          /**< CRIA_STRUCT sets it */
  uint32_t window;      /**< tokens evaluated together; 0: 512. The engine's n_ctx must be at least
                           window - 1 */
  uint32_t stride;      /**< 0: windows do not overlap, and each scores its second half; else as in
                           --stride */
  uint64_t max_windows; /**< 0: all */
} cria_perplexity_options;
/** Result of cria_perplexity(). */
typedef struct {
  size_t size;                       /**< CRIA_STRUCT sets it */
  double perplexity, standard_error; /**< as `cria perplexity` prints them */
  uint64_t tokens, windows;          /**< numbers of scored tokens and windows */
} cria_perplexity_result;
/** Measures the perplexity of a text: the figures of `cria perplexity`, to the bit. options: NULL
 * for the defaults. */
CRIA_API cria_status cria_perplexity(cria_engine engine, const char* text, size_t text_size,
                                     const cria_perplexity_options* options,
                                     cria_perplexity_result* result);

/** Creates an empty sequence. The caller owns *sequence:
 * cria_sequence_free(). scope: as in cria_request. */
CRIA_API cria_status cria_sequence_create(cria_engine engine, uint64_t scope,
                                          cria_sequence* sequence);
/** Its pages stay in the prefix cache, unless the engine's option no_prefix_cache is set. */
CRIA_API cria_status cria_sequence_free(cria_sequence sequence);
/** Copies a sequence; the copies share memory until one of them changes.
 */
CRIA_API cria_status cria_sequence_fork(cria_sequence sequence, cria_sequence* fork);
/** Forgets what follows the first n tokens (or everything, if a window of the model has dropped
 * keys that they need). *left (may be NULL): how many tokens are left. */
CRIA_API cria_status cria_sequence_truncate(cria_sequence sequence, size_t n, size_t* left);
/** Replaces the sequence by the longest prefix of `tokens` that the engine holds; waits for
 * positions as cria_forward() does. *left (may be NULL): how many tokens that is. */
CRIA_API cria_status cria_sequence_reuse(cria_sequence sequence, const cria_token* tokens,
                                         size_t n_tokens, size_t* left);
/** The tokens that the sequence holds. */
CRIA_API cria_status cria_sequence_tokens(cria_sequence sequence, cria_token* tokens,
                                          size_t capacity, size_t* count);

/** Tokens to append to a sequence. Never grows. */
typedef struct {
  cria_sequence sequence;   /**< the sequence */
  const cria_token* tokens; /**< read during the call */
  size_t n_tokens;          /**< number of tokens */
  size_t first_wanted;      /**< first token whose logits are requested; n_tokens: none */
} cria_slice;
/** Evaluates slices of different sequences of one engine together, in as few passes as its n_batch
 * allows. logits: [requested][n_vocab] in the order of the slices. Each row has the bits that it
 * has in a call of its own. If answers occupy the positions that it needs, it computes these until
 * there are enough. After an error, sequences hold what they held, and perhaps some of the new
 * tokens; a sequence whose logits are not finite is empty. */
CRIA_API cria_status cria_forward(const cria_slice* slices, size_t n_slices, float* logits,
                                  size_t capacity, size_t* count);

/* ---- Tensor types: rows of weights as blocks, and back. ---- */

/** A tensor type. */
typedef struct {
  size_t size;           /**< CRIA_STRUCT sets it */
  const char* name;      /**< "Q4_K"; valid forever */
  uint32_t id;           /**< its number in GGUF files */
  uint32_t block_values; /**< rows are a multiple of this long */
  uint32_t block_bytes;  /**< bytes of a block */
  uint32_t header_bytes; /**< bytes that a row begins with; usually 0 */
} cria_dtype;
/** Finds a type by its name in either case, or by its number if name is NULL.
 * CRIA_ERROR_ARGUMENT if the type is unknown. */
CRIA_API cria_status cria_dtype_find(const char* name, uint32_t id, cria_dtype* dtype);
/** Decodes rows of `cols` values, `bytes` bytes, to values: [rows][cols]. threads: 0: physical
 * cores. */
CRIA_API cria_status cria_dequantize(const char* dtype, const void* data, size_t bytes, size_t cols,
                                     uint32_t threads, float* values, size_t capacity,
                                     size_t* count);
/** Encodes values, [rows][cols], as `cria quantize` does; the same bytes for any number of threads.
 * importance: NULL, or a weight for each column. CRIA_ERROR_DATA for NaN, infinity and values that
 * the type cannot hold. capacity, *count: bytes. */
CRIA_API cria_status cria_quantize(const char* dtype, const float* values, size_t n_values,
                                   size_t cols, const float* importance, uint32_t threads,
                                   void* data, size_t capacity, size_t* count);

/* ---- GGUF files. ---- */

/** Value types of fields, by their numbers in the file. */
enum {
  CRIA_GGUF_U8 = 0,
  CRIA_GGUF_I8 = 1,
  CRIA_GGUF_U16 = 2,
  CRIA_GGUF_I16 = 3,
  CRIA_GGUF_U32 = 4,
  CRIA_GGUF_I32 = 5,
  CRIA_GGUF_F32 = 6,
  CRIA_GGUF_BOOL = 7,
  CRIA_GGUF_STRING = 8,
  CRIA_GGUF_ARRAY = 9,
  CRIA_GGUF_U64 = 10,
  CRIA_GGUF_I64 = 11,
  CRIA_GGUF_F64 = 12
};
/** Options of cria_gguf_open(). */
typedef struct {
  size_t size;           /**< CRIA_STRUCT sets it */
  int32_t no_mmap;       /**< 1: read the file into memory instead of mapping it */
  int32_t metadata_only; /**< 1: the data of tensors may be missing */
} cria_gguf_options;
/** Opens a file, or all files of a split one by its first. options: NULL for the defaults. The
 * caller owns *file: cria_gguf_free(). CRIA_ERROR_DATA names file, place and reason. */
CRIA_API cria_status cria_gguf_open(const char* path, const cria_gguf_options* options,
                                    cria_gguf* file);
/** Unmaps it: pointers to its fields and data end here. */
CRIA_API cria_status cria_gguf_free(cria_gguf file);

/** Properties of a file. */
typedef struct {
  size_t size;         /**< CRIA_STRUCT sets it */
  uint32_t version;    /**< of the format: 1 to 3 */
  uint32_t n_files;    /**< more than 1: it is split */
  uint64_t alignment;  /**< of tensor data, in bytes */
  uint64_t file_bytes; /**< of all files */
  size_t n_fields;     /**< number of fields */
  size_t n_tensors;    /**< number of tensors, of all files */
  size_t n_warnings;   /**< number of things that were tolerated */
} cria_gguf_info;
/** The properties of an open file. */
CRIA_API cria_status cria_gguf_get_info(cria_gguf file, cria_gguf_info* info);
/** Warning number `index`, one line; valid as long as the handle. */
CRIA_API cria_status cria_gguf_get_warning(cria_gguf file, size_t index, const char** text);

/** A field. Pointers are valid as long as the handle. */
typedef struct {
  size_t size;      /**< CRIA_STRUCT sets it */
  const char* key;  /**< UTF-8, without '\0' */
  size_t key_size;  /**< in bytes */
  int32_t type;     /**< CRIA_GGUF_… */
  int32_t element;  /**< type of an array's elements */
  uint64_t count;   /**< elements of an array; bytes of a string; else 1 */
  const void* data; /**< little-endian, any alignment; an array of strings: length, bytes, … as in
                       the file; the length has 8 bytes (4 in version 1) */
  size_t bytes;     /**< of data */
} cria_gguf_field;
/** Field number `index` in the order of the file. */
CRIA_API cria_status cria_gguf_get_field(cria_gguf file, size_t index, cria_gguf_field* field);

/** A tensor. Pointers are valid as long as the handle. */
typedef struct {
  size_t size;       /**< CRIA_STRUCT sets it */
  const char* name;  /**< UTF-8, without '\0' */
  size_t name_size;  /**< in bytes */
  const char* dtype; /**< "Q4_K"; valid forever */
  uint32_t n_dims;   /**< 1 to 4 */
  uint32_t file;     /**< index of the file that holds it */
  uint64_t shape[4]; /**< shape[0]: values of a row, which lie side by side; unused ones are 1 */
  uint64_t offset;   /**< of the data, in bytes from the start of that file */
  const void* data;  /**< NULL if the data is missing (metadata_only) */
  size_t bytes;      /**< of data */
} cria_gguf_tensor;
/** Tensor number `index` in the order of the file. */
CRIA_API cria_status cria_gguf_get_tensor(cria_gguf file, size_t index, cria_gguf_tensor* tensor);

/** Begins a file at `path`, which is replaced as a whole by cria_gguf_writer_finish(). First come
 * all fields and the declarations of all tensors, then their data in the same order. alignment: a
 * power of two from 8 to 1048576; 0: 32. The caller owns *writer: cria_gguf_writer_free(). */
CRIA_API cria_status cria_gguf_writer_create(const char* path, uint64_t alignment,
                                             cria_gguf_writer* writer);
/** Without cria_gguf_writer_finish(): `path` stays as it was. */
CRIA_API cria_status cria_gguf_writer_free(cria_gguf_writer writer);
/** Sets a field, or replaces it. type: CRIA_GGUF_…; for CRIA_GGUF_ARRAY, `element` and `count` say
 * of what. data: as in cria_gguf_field, strings of an array with lengths of 8 bytes. */
CRIA_API cria_status cria_gguf_writer_set(cria_gguf_writer writer, const char* key, int32_t type,
                                          int32_t element, uint64_t count, const void* data,
                                          size_t bytes);
/** Sets a field to that of an open file, with the same key. */
CRIA_API cria_status cria_gguf_writer_copy_field(cria_gguf_writer writer, cria_gguf file,
                                                 size_t index);
/** Announces a tensor. shape[0]: values of a row. */
CRIA_API cria_status cria_gguf_writer_declare(cria_gguf_writer writer, const char* name,
                                              const char* dtype, const uint64_t* shape,
                                              size_t n_dims);
/** Writes the next bytes of tensor data, in pieces of any size that do not cross a tensor's end.
 * The first call checks that readers will accept all fields and tensors. */
CRIA_API cria_status cria_gguf_writer_write(cria_gguf_writer writer, const void* data,
                                            size_t bytes);
/** Completes the file and replaces `path`. CRIA_ERROR_DATA if data is missing. */
CRIA_API cria_status cria_gguf_writer_finish(cria_gguf_writer writer);

#ifdef __cplusplus
}
#endif

#endif
