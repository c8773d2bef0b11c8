#include "fault_injection.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace slipstream::fault {
namespace {

constexpr int kPoints = 6;

std::array<std::atomic<int64_t>, kPoints> calls{};
// The armed fault: calls of `armed_point` from first_call up to last_call.
std::atomic<int> armed_point{-1};
std::atomic<int64_t> first_call{0};
std::atomic<int64_t> last_call{0};
std::atomic<int> armed_error{0};
std::atomic<bool> reached{false};

/// Counts a call; the errno to give instead of making it, or 0. -1: fail without an errno.
int Fails(Point point) {
  const int64_t call = calls[static_cast<int>(point)].fetch_add(1);
  if (armed_point.load() != static_cast<int>(point)) return 0;
  if (call < first_call.load() || call >= last_call.load()) return 0;
  reached = true;
  return armed_error.load() == 0 ? -1 : armed_error.load();
}

void* Allocate(std::size_t size, std::size_t alignment) {
  if (Fails(Point::kAllocate) != 0) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* AllocateOrThrow(std::size_t size, std::size_t alignment = 1) {
  void* memory = Allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

Inject::Inject(Point point, int64_t first, int64_t count, int error) {
  reached = false;
  const int64_t now = Calls(point);
  first_call = now + first;
  last_call = count > INT64_MAX - now - first ? INT64_MAX : now + first + count;
  armed_error = error;
  armed_point = static_cast<int>(point);
}

Inject::~Inject() { armed_point = -1; }

bool Inject::hit() const { return reached; }

int64_t Calls(Point point) { return calls[static_cast<int>(point)].load(); }

}  // namespace slipstream::fault

using slipstream::fault::AllocateOrThrow;
using slipstream::fault::Fails;
using slipstream::fault::Point;

void* operator new(std::size_t size) { return AllocateOrThrow(size); }
void* operator new[](std::size_t size) { return AllocateOrThrow(size); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return AllocateOrThrow(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return slipstream::fault::Allocate(size, 1);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return slipstream::fault::Allocate(size, 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

// The linker sends the library's calls of NAME to __wrap_NAME (--wrap); __real_NAME is the
// system's.
extern "C" {

int __real_open(const char* path, int flags, ...);
int __real_fstat(int fd, struct stat* info);
void* __real_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset);
int __real_madvise(void* address, size_t size, int advice);

int __wrap_open(const char* path, int flags, ...) {
  if (const int error = Fails(Point::kOpen); error != 0) {
    errno = error;
    return -1;
  }
  va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = va_arg(arguments, unsigned);  // read only by a call that creates
  va_end(arguments);
  return __real_open(path, flags, mode);
}

int __wrap_fstat(int fd, struct stat* info) {
  if (const int error = Fails(Point::kStat); error != 0) {
    errno = error;
    return -1;
  }
  return __real_fstat(fd, info);
}

void* __wrap_mmap(void* address, size_t size, int protection, int flags, int fd, off_t offset) {
  if (const int error = Fails(Point::kMap); error != 0) {
    errno = error;
    return MAP_FAILED;
  }
  return __real_mmap(address, size, protection, flags, fd, offset);
}

int __wrap_madvise(void* address, size_t size, int advice) {
  if (const int error = Fails(Point::kAdvise); error != 0) {
    errno = error;
    return -1;
  }
  return __real_madvise(address, size, advice);
}

// std::thread starts threads from inside the C++ library, where --wrap does not reach: this
// definition comes before the system's.
__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*start)(void*), void* argument) {
  if (const int error = Fails(Point::kStartThread); error != 0) return error;
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attributes, start, argument);
}

}  // extern "C"
