#include "text/charsmap.h"

#include <cstring>

#include "text/unicode.h"
#include "text/utf8.h"

namespace slipstream::text {
namespace {

constexpr size_t kMaxClusterBytes = 6;  // clusters from this size on are not looked up as a whole

Status Damaged(const std::string& what) {
  return {StatusCode::kInvalidArgument, "it is not a SentencePiece character map: " + what};
}

int ValueOfBase64(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool DecodeBase64(std::string_view text, std::string* out) {
  uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    const int value = ValueOfBase64(c);
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out->push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return true;
}

// A unit: a leaf below, the byte that leads here, the offset of the children.
bool HasLeaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t Label(uint32_t unit) { return unit & (1u << 31 | 0xFF); }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & 1u << 9) >> 6); }
uint32_t Value(uint32_t unit) { return unit & ~(1u << 31); }

// The parts of a syllable stay together.
enum class Hangul : uint8_t { kNone, kLead, kVowel, kTrail, kOpen, kClosed };
Hangul HangulOf(char32_t c) {
  if ((c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C)) return Hangul::kLead;
  if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return Hangul::kVowel;
  if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return Hangul::kTrail;
  if (c >= 0xAC00 && c <= 0xD7A3) return (c - 0xAC00) % 28 == 0 ? Hangul::kOpen : Hangul::kClosed;
  return Hangul::kNone;
}

bool HangulJoins(char32_t left, char32_t right) {
  const Hangul a = HangulOf(left);
  const Hangul b = HangulOf(right);
  if (a == Hangul::kNone || b == Hangul::kNone) return false;
  if (a == Hangul::kLead) return b != Hangul::kTrail;
  if (a == Hangul::kVowel || a == Hangul::kOpen) return b == Hangul::kVowel || b == Hangul::kTrail;
  return b == Hangul::kTrail;
}

bool IsControl(char32_t c) {
  constexpr CategorySet kControls =
      CategoryBit(kCc) | CategoryBit(kCf) | CategoryBit(kZl) | CategoryBit(kZp);
  const CharClass cls = CharClass::Of(c);
  return cls.In(kControls) && !cls.ExtendsCluster() && !cls.PrependsCluster();
}

// Whether two neighbours are of one cluster. Pairs of flags and emoji sequences are not told apart
// here: they are too long to be looked up as a whole.
bool Joins(char32_t left, char32_t right) {
  if (left == '\r' && right == '\n') return true;
  if (IsControl(left) || IsControl(right)) return false;
  if (CharClass::Of(right).ExtendsCluster() || CharClass::Of(left).PrependsCluster()) return true;
  return HangulJoins(left, right);
}

size_t ClusterEnd(std::string_view text, size_t position) {
  Utf8Char last = DecodeUtf8(text, position);
  position += last.size;
  while (position < text.size()) {
    const Utf8Char next = DecodeUtf8(text, position);
    if (!Joins(last.code_point, next.code_point)) break;
    position += next.size;
    last = next;
  }
  return position;
}

}  // namespace

Result<Charsmap> Charsmap::FromBase64(std::string_view text) {
  std::string blob;
  if (!DecodeBase64(text, &blob)) return Damaged("it is not base64");
  uint32_t size = 0;
  if (blob.size() < sizeof size) return Damaged("it is too short");
  std::memcpy(&size, blob.data(), sizeof size);
  if (size % sizeof(uint32_t) != 0 || size == 0 || size > blob.size() - sizeof size)
    return Damaged("the size of its trie is wrong");
  Charsmap charsmap;
  charsmap.units_.resize(size / sizeof(uint32_t));
  std::memcpy(charsmap.units_.data(), blob.data() + sizeof size, size);
  charsmap.texts_ = blob.substr(sizeof size + size);
  charsmap.texts_.push_back('\0');
  if (FindInvalidUtf8(charsmap.texts_) != std::string_view::npos)
    return Damaged("its texts are not valid UTF-8");
  return charsmap;
}

bool Charsmap::Transform(std::string_view part, std::string* out) const {
  uint32_t node = Offset(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte == 0) return false;
    node ^= byte;
    if (node >= units_.size() || Label(units_[node]) != byte) return false;
    const bool leaf = HasLeaf(units_[node]);
    node ^= Offset(units_[node]);
    if (!leaf) continue;
    // The shortest key that fits decides.
    if (node >= units_.size()) return false;
    const uint32_t begin = Value(units_[node]);
    const bool inside = begin < texts_.size() && (texts_[begin] & 0xC0) != 0x80;
    if (!inside) return false;
    out->append(texts_.c_str() + begin);
    return true;
  }
  return false;
}

void Charsmap::Apply(std::string* text) const {
  std::string out;
  out.reserve(text->size() + text->size() / 8);
  const std::string_view view = *text;
  for (size_t position = 0; position < view.size();) {
    const size_t end = ClusterEnd(view, position);
    if (end - position < kMaxClusterBytes &&
        Transform(view.substr(position, end - position), &out)) {
      position = end;
      continue;
    }
    while (position < end) {
      const uint32_t size = DecodeUtf8(view, position).size;
      const std::string_view part = view.substr(position, size);
      if (!Transform(part, &out)) out.append(part);
      position += size;
    }
  }
  *text = std::move(out);
}

}  // namespace slipstream::text
