#include "engine/weight_store.h"

#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/resource_exhausted.h"
#include "engine/format.h"

namespace slipstream::engine {
namespace {

class MappedWeightStore : public WeightStore {
 public:
  explicit MappedWeightStore(std::shared_ptr<const EngineFile> file) : file_(std::move(file)) {
    const Manifest& manifest = file_->manifest();
    const std::byte* base = file_->SectionBytes(kWeightsSection).data();
    index_.reserve(manifest.tensors.size());
    for (const Tensor& tensor : manifest.tensors) {
      index_.emplace(tensor.name, TensorView{&tensor, base + tensor.offset});
    }
  }

  Result<TensorView> Find(std::string_view name) const override {
    const auto found = index_.find(name);
    if (found != index_.end()) return found->second;
    return Status(StatusCode::kNotFound, file_->path() + " holds no tensor \"" + std::string(name) +
                                             "\"; rebuild it with this version.");
  }

  uint64_t version() const override { return file_->manifest().weights_version; }

 private:
  std::shared_ptr<const EngineFile> file_;
  std::unordered_map<std::string_view, TensorView> index_;  // Keys and values live in the manifest.
};

}  // namespace

Result<std::shared_ptr<const WeightStore>> MapWeights(std::shared_ptr<const EngineFile> file) {
  try {
    return std::shared_ptr<const WeightStore>(std::make_shared<MappedWeightStore>(std::move(file)));
  } catch (const std::bad_alloc&) {
    return core::ResourceExhausted("Out of memory while listing the tensors.");
  }
}

}  // namespace slipstream::engine
