// Modules and parameters in order or by name: Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict; and Functional, a
// function as a module.
#pragma once

#include <facula/nn/any_module.h>
#include <facula/nn/cloneable.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <utility>
#include <vector>

namespace facula::nn {

// Modules that run one after the other: each gets what the one before it gives.
class FACULA_API SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class First, class... More>
    requires(!std::is_same_v<std::decay_t<First>, SequentialImpl> &&
             !std::is_same_v<std::decay_t<First>, OrderedDict<std::string, AnyModule>>)
  explicit SequentialImpl(First&& first, More&&... more) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<More>(more)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& ordered);
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> named);

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    std::vector<AnyValue> arguments;
    (arguments.emplace_back(std::forward<Args>(args)), ...);
    return any_forward(std::move(arguments)).template get<Result>();
  }
  AnyValue any_forward(std::vector<AnyValue> arguments);

  // A name is given, or the place of the module becomes its name.
  void push_back(AnyModule any_module);
  void push_back(std::string name, AnyModule any_module);
  template <class M>
    requires(!std::is_same_v<std::decay_t<M>, AnyModule> && !std::is_same_v<std::decay_t<M>, NamedAnyModule>)
  void push_back(M&& module) {
    push_back(AnyModule(std::forward<M>(module)));
  }
  void push_back(const NamedAnyModule& named);
  template <class M>
    requires(!std::is_same_v<std::decay_t<M>, AnyModule>)
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), AnyModule(std::forward<M>(module)));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t index) {
    return modules_[checked(index)].template get<M>();
  }
  template <class M>
  const M& at(size_t index) const {
    return modules_[checked(index)].template get<M>();
  }
  std::shared_ptr<Module> ptr(size_t index) const;
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    return modules_[checked(index)].template ptr<M>();
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  size_t checked(size_t index) const;
  std::vector<AnyModule> modules_;
};

class FACULA_API Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  using Impl = SequentialImpl;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> named);
};

// Modules in order, which others call.
class FACULA_API ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  using Iterator = std::vector<std::shared_ptr<Module>>::iterator;
  using ConstIterator = std::vector<std::shared_ptr<Module>>::const_iterator;

  ModuleListImpl() = default;
  template <class First, class... More>
    requires(!std::is_same_v<std::decay_t<First>, ModuleListImpl>)
  explicit ModuleListImpl(First&& first, More&&... more) {
    push_back(std::forward<First>(first));
    (push_back(std::forward<More>(more)), ...);
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  void push_back(std::shared_ptr<Module> module);
  template <class M>
    requires std::is_base_of_v<Module, M>
  void push_back(std::shared_ptr<M> module) {
    push_back(std::static_pointer_cast<Module>(std::move(module)));
  }
  template <class M>
    requires(std::is_base_of_v<Module, std::decay_t<M>>)
  void push_back(M&& module) {
    push_back(std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(holder.ptr());
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  void insert(size_t index, std::shared_ptr<Module> module);
  template <class M>
    requires std::is_base_of_v<Module, M>
  void insert(size_t index, std::shared_ptr<M> module) {
    insert(index, std::static_pointer_cast<Module>(std::move(module)));
  }
  template <class M>
    requires(std::is_base_of_v<Module, std::decay_t<M>>)
  void insert(size_t index, M&& module) {
    insert(index, std::static_pointer_cast<Module>(std::make_shared<std::decay_t<M>>(std::forward<M>(module))));
  }
  template <class M>
  void insert(size_t index, const ModuleHolder<M>& holder) {
    insert(index, std::static_pointer_cast<Module>(holder.ptr()));
  }

  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class M>
  M& at(size_t index) const {
    return *ptr<M>(index);
  }
  std::shared_ptr<Module> ptr(size_t index) const;
  template <class M>
  std::shared_ptr<M> ptr(size_t index) const {
    const std::shared_ptr<Module> held = ptr(index);
    auto found = std::dynamic_pointer_cast<M>(held);
    if (const Module& module = *held; !found) detail::refuse_cast("module", typeid(module), typeid(M));
    return found;
  }
  std::shared_ptr<Module> operator[](size_t index) const { return ptr(index); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  size_t checked(size_t index) const;
  std::vector<std::shared_ptr<Module>> modules_;
};
FACULA_MODULE(ModuleList);

// Modules by name, in the order in which they came.
class FACULA_API ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  using Modules = OrderedDict<std::string, std::shared_ptr<Module>>;
  using Iterator = Modules::Iterator;
  using ConstIterator = Modules::ConstIterator;

  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules);
  explicit ModuleDictImpl(const Modules& modules);

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const;
  std::vector<std::string> keys() const;
  std::vector<std::shared_ptr<Module>> values() const;
  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  size_t size() const noexcept { return modules_.size(); }
  bool empty() const noexcept { return modules_.is_empty(); }
  bool contains(const std::string& key) const noexcept;
  void clear();
  std::shared_ptr<Module> pop(const std::string& key);
  // Replaces modules of the same names and adds the others.
  void update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules);
  void update(const Modules& modules);
  template <class Container>
  void update(const Container& container) {
    for (const auto& item : container) put(item.key(), item.value());
  }
  std::shared_ptr<Module> operator[](const std::string& key) const { return ptr(key); }
  template <class M>
  M& at(const std::string& key) const {
    return *ptr<M>(key);
  }
  std::shared_ptr<Module> ptr(const std::string& key) const;
  template <class M>
  std::shared_ptr<M> ptr(const std::string& key) const {
    const std::shared_ptr<Module> held = ptr(key);
    auto found = std::dynamic_pointer_cast<M>(held);
    if (const Module& module = *held; !found) detail::refuse_cast("module", typeid(module), typeid(M));
    return found;
  }

 private:
  void put(const std::string& key, std::shared_ptr<Module> module);
  Modules modules_;
};
FACULA_MODULE(ModuleDict);

// Parameters in order.
class FACULA_API ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterListImpl() = default;
  template <class First, class... More>
    requires(std::is_convertible_v<First, Tensor>)
  explicit ParameterListImpl(First&& first, More&&... more) {
    append(Tensor(std::forward<First>(first)));
    (append(Tensor(std::forward<More>(more))), ...);
  }

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  void append(Tensor parameter);
  void append(const OrderedDict<std::string, Tensor>::Item& pair);
  template <class Container>
  void extend(const Container& container) {
    for (const auto& parameter : container) append(parameter);
  }
  Iterator begin() { return parameters_.begin(); }
  ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  ConstIterator end() const { return parameters_.end(); }
  Tensor& at(size_t index);
  const Tensor& at(size_t index) const;
  Tensor& operator[](size_t index) { return at(index); }
  const Tensor& operator[](size_t index) const { return at(index); }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
FACULA_MODULE(ParameterList);

// Parameters by name.
class FACULA_API ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  using Iterator = OrderedDict<std::string, Tensor>::Iterator;
  using ConstIterator = OrderedDict<std::string, Tensor>::ConstIterator;

  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters);

  std::shared_ptr<Module> clone(const std::optional<Device>& device = std::nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;

  Tensor& insert(std::string key, Tensor parameter);
  Tensor pop(const std::string& key);
  std::vector<std::string> keys() const;
  std::vector<Tensor> values() const;
  Iterator begin() { return parameters_.begin(); }
  ConstIterator begin() const { return parameters_.begin(); }
  Iterator end() { return parameters_.end(); }
  ConstIterator end() const { return parameters_.end(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
  void clear();
  bool contains(const std::string& key) const noexcept;
  Tensor& get(const std::string& key);
  const Tensor& get(const std::string& key) const;
  Tensor& operator[](const std::string& key) { return get(key); }
  const Tensor& operator[](const std::string& key) const { return get(key); }
  // Replaces parameters of the same names and adds the others.
  template <class Container>
  void update(const Container& container) {
    for (const auto& item : container) put(item.key(), item.value());
  }

 private:
  void put(const std::string& key, const Tensor& parameter);
};
FACULA_MODULE(ParameterDict);

// A function as a module: `Functional(torch::relu)`, or with further arguments, `Functional(torch::leaky_relu, 0.5)`.
class FACULA_API FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;

  explicit FunctionalImpl(Function function);
  template <class F, class... Args>
    requires(sizeof...(Args) > 0)
  explicit FunctionalImpl(F function, Args&&... args)
      : FunctionalImpl(Function([function, ... held = std::decay_t<Args>(std::forward<Args>(args))](
                                    const Tensor& input) { return function(input, held...); })) {}

  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(Tensor input);
  Tensor operator()(Tensor input) { return forward(std::move(input)); }
  bool is_serializable() const { return false; }

 private:
  Function function_;
};
FACULA_MODULE(Functional);

}  // namespace facula::nn
