#include "engine/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace slipstream::engine {
namespace {

Status OpenError(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR) {
    return Status(StatusCode::kNotFound, path + ": no such file; check the path.");
  }
  return Status(StatusCode::kIo,
                path + ": cannot be opened: " + std::generic_category().message(error) +
                    ". Check its permissions.");
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a named pipe would wait for a writer; it has no effect on regular files.
  int fd = -1;
  do {  // a signal may interrupt an open over the network
    fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return OpenError(path, errno);
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return OpenError(path, error);
  }
  if (!S_ISREG(info.st_mode)) {
    close(fd);
    return Status(StatusCode::kInvalidArgument,
                  path + (S_ISDIR(info.st_mode) ? ": is a directory" : ": is not a regular file") +
                      "; give the path of an .engine file.");
  }
  MappedFile file;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* data = mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      const int error = errno;
      close(fd);
      file.size_ = 0;
      return Status(StatusCode::kIo, path + ": cannot be mapped into memory: " +
                                         std::generic_category().message(error) +
                                         ". Free memory, or copy the file to a local disk.");
    }
    file.data_ = static_cast<const std::byte*>(data);
  }
  close(fd);  // The mapping keeps the file.
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::WillNeed(size_t offset, size_t size) const {
  if (data_ == nullptr || offset >= size_) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = offset / page * page;
  const size_t end = offset + std::min(size, size_ - offset);
  madvise(const_cast<std::byte*>(data_) + first, end - first, MADV_WILLNEED);
}

}  // namespace slipstream::engine
