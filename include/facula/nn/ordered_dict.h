// A dictionary that keeps the order in which its keys were inserted. Holds what modules register, and state dicts.
#pragma once

#include <facula/core/error.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace facula {

template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}

    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }
    // An item stands for its value: `for (auto& item : dict) item->numel()`.
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  OrderedDict() = default;
  // With what a key is called in errors.
  explicit OrderedDict(std::string key_description) : key_description_(std::move(key_description)) {}
  OrderedDict(std::initializer_list<Item> items) {
    reserve(items.size());
    for (const Item& item : items) insert(item.key(), item.value());
  }
  const std::string& key_description() const noexcept { return key_description_; }

  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  void reserve(size_t count) {
    index_.reserve(count);
    items_.reserve(count);
  }

  Item& front() { return items_[checked(0, "front")]; }
  const Item& front() const { return items_[checked(0, "front")]; }
  Item& back() { return items_[checked(0, "back") + size() - 1]; }
  const Item& back() const { return items_[checked(0, "back") + size() - 1]; }
  Item& operator[](size_t index) { return items_[checked(index)]; }
  const Item& operator[](size_t index) const { return items_[checked(index)]; }
  // The key must exist.
  Value& operator[](const Key& key) { return items_[place(key)].value(); }
  const Value& operator[](const Key& key) const { return items_[place(key)].value(); }

  // Null when there is no such key. Inserting makes pointers and iterators invalid.
  Value* find(const Key& key) noexcept {
    const auto found = index_.find(key);
    return found == index_.end() ? nullptr : &items_[found->second].value();
  }
  const Value* find(const Key& key) const noexcept { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const noexcept { return find(key) != nullptr; }

  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  const std::vector<Item>& items() const noexcept { return items_; }

  // The key must be new.
  Value& insert(Key key, Value&& value) { return add(std::move(key), std::move(value)); }
  template <class K, class V>
  Value& insert(K&& key, V&& value) {
    return add(Key(std::forward<K>(key)), Value(std::forward<V>(value)));
  }
  // All of `other`, whose keys must be new.
  void update(OrderedDict&& other) {
    reserve(size() + other.size());
    for (Item& item : other.items_) add(item.key(), std::move(item.value()));
  }
  void update(const OrderedDict& other) {
    reserve(size() + other.size());
    for (const Item& item : other.items_) add(item.key(), item.value());
  }
  // The key must exist.
  void erase(const Key& key) {
    const auto found = index_.find(key);
    FACULA_CHECK(found != index_.end(), ValueError, key_description_, " '", key, "' doesn't exist");
    const size_t gone = found->second;
    index_.erase(found);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(gone));
    for (auto& [other, at] : index_) at -= at > gone;
  }
  void clear() {
    index_.clear();
    items_.clear();
  }

  std::vector<Key> keys() const {
    std::vector<Key> all;
    all.reserve(size());
    for (const Item& item : items_) all.push_back(item.key());
    return all;
  }
  std::vector<Value> values() const {
    std::vector<Value> all;
    all.reserve(size());
    for (const Item& item : items_) all.push_back(item.value());
    return all;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> all;
    all.reserve(size());
    for (const Item& item : items_) all.push_back(item.pair());
    return all;
  }
  // The same keys and values in the same order.
  friend bool operator==(const OrderedDict& a, const OrderedDict& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
      if (!(a.items_[i].pair() == b.items_[i].pair())) return false;
    return true;
  }

 private:
  Value& add(Key key, Value value) {
    const bool fresh = index_.emplace(key, items_.size()).second;
    FACULA_CHECK(fresh, ValueError, key_description_, " '", key, "' already defined");
    return items_.emplace_back(std::move(key), std::move(value)).value();
  }
  size_t place(const Key& key) const {
    const auto found = index_.find(key);
    FACULA_CHECK(found != index_.end(), ValueError, key_description_, " '", key, "' is not defined");
    return found->second;
  }
  size_t checked(size_t index) const {
    FACULA_CHECK(index < size(), IndexError, "Index ", index, " is out of bounds of an OrderedDict of ", size());
    return index;
  }
  size_t checked(size_t index, const char* method) const {
    FACULA_CHECK(!items_.empty(), IndexError, "Called ", method, "() on an empty OrderedDict");
    return index;
  }

  std::unordered_map<Key, size_t> index_;
  std::vector<Item> items_;
  std::string key_description_ = "Key";
};

}  // namespace facula
