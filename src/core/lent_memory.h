// Memory whose address somebody outside of tensors holds: an array of NumPy, a reader of a buffer, a consumer of
// DLPack. It stays where it is for as long: `resize_`, and `out` tensors that would grow, refuse to move it.
#pragma once

#include <facula/core/storage.h>

namespace facula {

// Holds a storage and its address. Kept in a table beside storages, since few are ever lent.
class FACULA_API LentMemory {
 public:
  LentMemory() = default;
  explicit LentMemory(Storage storage);
  LentMemory(LentMemory&&) noexcept = default;
  LentMemory& operator=(LentMemory&& other) noexcept;
  ~LentMemory();

 private:
  Storage storage_;
};

bool is_lent(const StorageImpl& storage);

}  // namespace facula
