// Runtime -> Engine -> Model: a process' resources, an immutable file, and its weights ready to
// run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "slipstream/chat.h"
#include "slipstream/config.h"
#include "slipstream/export.h"
#include "slipstream/status.h"
#include "slipstream/text.h"
#include "slipstream/types.h"

namespace slipstream {

/// Thread pool and CPU dispatch of a process. Shared by any number of models; two models take turns
/// step by step. Thread-safe. Cheap to copy; the last copy joins the threads.
class SLIPSTREAM_API Runtime {
 public:
  /// Errors: kInvalidArgument (threads out of 1..1024), kIncompatible (the CPU lacks the path),
  /// kResourceExhausted (a thread cannot start).
  static Result<Runtime> Create(const RuntimeConfig& config = {});
  int32_t threads() const;
  /// "scalar", "emulated16", "avx2" or "avx512".
  const char* cpu_path() const;

  struct SLIPSTREAM_LOCAL Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

enum class Verify : uint8_t {
  kDefault = 0,  ///< Header, manifest, graph, plans, tokenizer, section table.
  kFull = 1,     ///< Also every 1 MiB chunk of the weights.
};

/// What an engine was built for.
struct EngineLimits {
  int32_t max_seq_len = 0;     ///< Tokens of one sequence, prompt and answer together.
  int32_t max_batch_size = 0;  ///< Sequences of one step.
  int32_t max_num_tokens = 0;  ///< Tokens of one step, over all sequences.
  int32_t vocab_size = 0;      ///< Logits of a row; ids are below it.
};

/// One mapped and checked .engine file. Immutable, thread-safe, cheap to copy.
///
///     auto engine = Engine::Load("smollm2.engine");
///     if (!engine.ok()) { std::cerr << engine.status().message() << '\n'; return 2; }
class SLIPSTREAM_API Engine {
 public:
  /// Maps and checks the file; reads no weight byte unless `verify` is kFull. The weights are read
  /// from the mapping as long as a copy of the Engine, or a Model of it, lives. A file that is cut
  /// or written in place meanwhile ends the process with SIGBUS or changes the weights under it:
  /// put a new file in its place with rename(2), as build-engine does. Removing the file is
  /// harmless. Errors: kNotFound, kInvalidArgument (a directory or device), kIo, kCorruptFile,
  /// kIncompatible (the message lists every mismatch with its fix), kResourceExhausted.
  static Result<Engine> Load(const std::string& path, Verify verify = Verify::kDefault);

  const std::string& path() const;
  const std::string& model_name() const;
  const std::string& build_id() const;
  /// The whole manifest as canonical JSON.
  const std::string& manifest_json() const;
  const EngineLimits& limits() const;
  const Tokenizer& tokenizer() const;
  /// The Jinja chat template, or empty.
  const std::string& chat_template() const;
  /// The prompt of a conversation through chat_template(), with the model's special tokens as
  /// variables beside those of `options`. Parses the template each time: for many conversations
  /// keep a ChatTemplate. Errors: kNotFound (the model has no template), those of ChatTemplate.
  Result<std::string> ApplyChatTemplate(std::string_view messages_json,
                                        const ChatOptions& options = {}) const;
  /// tokenizer_config.json of the checkpoint (spellings of the special tokens), or "{}".
  const std::string& tokenizer_config_json() const;
  /// generation_config.json of the checkpoint (the model's own sampling defaults), or "{}".
  const std::string& generation_config_json() const;
  /// Ids that end generation, from generation_config.json, else from config.json.
  const std::vector<TokenId>& eos_token_ids() const;
  /// -1 when the model has none.
  TokenId bos_token_id() const;

  struct SLIPSTREAM_LOCAL Impl;
  const std::shared_ptr<const Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// An Engine with its plan prepared for a Runtime: the weights of one version, the arena of a step.
/// Several executors may share a Model; their steps then take turns. Thread-safe, cheap to copy.
class SLIPSTREAM_API Model {
 public:
  /// Errors: kCorruptFile and kNotFound (the plan does not agree with the file), kIncompatible (no
  /// plan of the file fits this machine), kResourceExhausted (arena).
  static Result<Model> Create(const Runtime& runtime, const Engine& engine);
  const Engine& engine() const;

  struct SLIPSTREAM_LOCAL Impl;
  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

}  // namespace slipstream
