// OrderedDict: keys in the order of their insertion, found by hash; libtorch's interface.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pellucid/error.h"

namespace pellucid {

/// A map that keeps the order in which keys came. Removing a key takes time proportional to the
/// size.
template <class Key, class Value> class OrderedDict {
 public:
  /// A key and its value. The key never changes.
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    Value& operator*() { return value(); }
    const Value& operator*() const { return value(); }
    Value* operator->() { return &value(); }
    const Value* operator->() const { return &value(); }
    const Key& key() const noexcept { return pair_.first; }
    Value& value() noexcept { return pair_.second; }
    const Value& value() const noexcept { return pair_.second; }
    const std::pair<Key, Value>& pair() const noexcept { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  /// `what` names a key in messages: "Parameter", "Submodule".
  explicit OrderedDict(std::string what) : what_(std::move(what)) {}
  OrderedDict() = default;
  OrderedDict(std::initializer_list<Item> items) {
    for (const Item& i : items) insert(i.key(), i.value());
  }

  const std::string& key_description() const noexcept { return what_; }
  size_t size() const noexcept { return items_.size(); }
  bool is_empty() const noexcept { return items_.empty(); }
  bool empty() const noexcept { return items_.empty(); }
  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  Item& front() { return items_[checked(0, "front()")]; }
  const Item& front() const { return items_[checked(0, "front()")]; }
  Item& back() { return items_[checked(size() - 1, "back()")]; }
  const Item& back() const { return items_[checked(size() - 1, "back()")]; }
  const std::vector<Item>& items() const& noexcept { return items_; }
  /// Of a temporary by value, so that `for (auto& item : module.named_parameters().items())` does
  /// not look at what is gone.
  std::vector<Item> items() && { return std::move(items_); }

  Value* find(const Key& key) noexcept {
    const auto at = index_.find(key);
    return at == index_.end() ? nullptr : &items_[at->second].value();
  }
  const Value* find(const Key& key) const noexcept {
    return const_cast<OrderedDict*>(this)->find(key);
  }
  bool contains(const Key& key) const noexcept { return find(key) != nullptr; }
  Value& operator[](const Key& key) {
    if (Value* v = find(key)) return *v;
    fail(key, "is not defined");
  }
  const Value& operator[](const Key& key) const { return const_cast<OrderedDict&>(*this)[key]; }
  Item& operator[](size_t i) { return items_[checked(i, "operator[]")]; }
  const Item& operator[](size_t i) const { return items_[checked(i, "operator[]")]; }

  template <class V> Value& insert(Key key, V&& value) {
    if (contains(key)) fail(key, "is already defined");
    items_.emplace_back(key, std::forward<V>(value));
    index_.emplace(std::move(key), items_.size() - 1);
    return items_.back().value();
  }
  /// Inserts, or replaces the value of a key that exists.
  template <class V> Value& insert_or_assign(const Key& key, V&& value) {
    if (Value* v = find(key)) return *v = std::forward<V>(value);
    return insert(key, std::forward<V>(value));
  }
  void update(const OrderedDict& other) {
    for (const Item& i : other) insert(i.key(), i.value());
  }
  void erase(const Key& key) {
    const auto at = index_.find(key);
    if (at == index_.end()) fail(key, "is not defined");
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at->second));
    index_.clear();
    for (size_t i = 0; i < items_.size(); ++i) index_.emplace(items_[i].key(), i);
  }
  void clear() {
    items_.clear();
    index_.clear();
  }
  void reserve(size_t n) {
    items_.reserve(n);
    index_.reserve(n);
  }
  std::vector<Key> keys() const {
    std::vector<Key> out;
    for (const Item& i : items_) out.push_back(i.key());
    return out;
  }
  std::vector<Value> values() const {
    std::vector<Value> out;
    for (const Item& i : items_) out.push_back(i.value());
    return out;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> out;
    for (const Item& i : items_) out.push_back(i.pair());
    return out;
  }

 private:
  size_t checked(size_t i, std::string_view asked) const {
    PELLUCID_CHECK(!items_.empty(), IndexError, "OrderedDict: {} of an empty dictionary.", asked);
    PELLUCID_CHECK(i < items_.size(), IndexError,
                   "OrderedDict: position {} is out of range for {} entries.", i, items_.size());
    return i;
  }
  [[noreturn]] void fail(const Key& key, std::string_view problem) const {
    if constexpr (std::is_convertible_v<const Key&, std::string_view>)
      detail::raise<IndexError>("{} '{}' {}.", what_, std::string_view(key), problem);
    else
      detail::raise<IndexError>("{} {}.", what_, problem);
  }
  std::vector<Item> items_;
  std::unordered_map<Key, size_t> index_;
  std::string what_ = "Key";
};

}  // namespace pellucid
