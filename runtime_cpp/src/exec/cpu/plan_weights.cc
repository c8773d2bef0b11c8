// The tensors that the steps of a plan read.
#include "core/excerpt.h"
#include "exec/cpu/plan_parser.h"

namespace slipstream::exec::cpu {

Status PlanParser::ParseWeight(core::JsonReader& weights, const char* role, PlanWeight* out) {
  out->tensor = weights.String(role);
  if (!weights.ok()) return weights.status();
  const engine::Tensor* tensor = manifest_.FindTensor(out->tensor);
  if (tensor == nullptr) {
    return Corrupt(where_ + " uses tensor '" + core::NameExcerpt(out->tensor) +
                   "', which the manifest does not list");
  }
  const auto type = core::ParseDType(tensor->format);
  if (!type.has_value() || (tensor->layout != "row_major" && tensor->layout != "n16k4")) {
    return Incompatible("tensor '" + core::NameExcerpt(tensor->name) + "' has format " +
                            core::Excerpt(tensor->format) + " in layout " +
                            core::Excerpt(tensor->layout),
                        "This build runs f32, f16 and bf16 in row_major or n16k4; build the "
                        "engine again with it.");
  }
  out->type = *type;
  out->blocked = tensor->layout == "n16k4";
  const int64_t element = core::DTypeSize(*type);
  const std::vector<int64_t>& shape = tensor->logical_shape;
  if (shape.size() == 2 && shape[1] > 0 && shape[1] <= kMaxDim) {
    const int64_t per_unit = 4 / element;
    const int64_t row_bytes =
        out->blocked ? (shape[1] + per_unit - 1) / per_unit * 4 : shape[1] * element;
    out->packed_rows = static_cast<int64_t>(tensor->size) / row_bytes;
    if (out->packed_rows * row_bytes != static_cast<int64_t>(tensor->size) ||
        out->packed_rows < shape[0] || (out->blocked && out->packed_rows % kBlockRows != 0)) {
      return Corrupt("tensor '" + core::NameExcerpt(tensor->name) + "' of " +
                     std::to_string(tensor->size) + " bytes does not hold whole rows of its shape");
    }
  } else if (shape.size() == 1 && !out->blocked) {
    out->packed_rows = static_cast<int64_t>(tensor->size) / element;
  } else {
    return Corrupt("tensor '" + core::NameExcerpt(tensor->name) +
                   "' has a shape that the plan cannot use");
  }
  out->cols = static_cast<int32_t>(shape.back());
  shape_ = shape;
  return Status::Ok();
}

Status PlanParser::CheckVector(const PlanWeight& w, int64_t size) {
  if (shape_.size() != 1 || w.type != core::DType::kF32 || w.packed_rows < size) {
    return Corrupt(where_ + " needs tensor '" + core::NameExcerpt(w.tensor) +
                   "' as a f32 vector of " + std::to_string(size));
  }
  return Status::Ok();
}

Status PlanParser::CheckMatrix(const PlanWeight& w, int64_t cols) {
  if (shape_.size() != 2 || shape_[1] != cols) {
    return Corrupt(where_ + " needs tensor '" + core::NameExcerpt(w.tensor) +
                   "' as a matrix with " + std::to_string(cols) + " columns");
  }
  return Status::Ok();
}

}  // namespace slipstream::exec::cpu
