// A list whose links are base classes of its elements: adding and removing cost a few stores and no memory. One element
// is in several lists at once by having several links, told apart by their tag.
#pragma once

namespace loadgen {

template <class Tag>
struct Link {
  Link *previous = this, *next = this;

  Link() = default;
  Link(const Link&) = delete;
  bool linked() const { return next != this; }
  void unlink() {
    previous->next = next;
    next->previous = previous;
    previous = next = this;
  }
};

template <class T, class Tag>
class List {
 public:
  bool empty() const { return !head_.linked(); }
  T& front() { return static_cast<T&>(*head_.next); }
  void push_back(T& element) {
    Link<Tag>& link = element;
    link.previous = head_.previous;
    link.next = &head_;
    head_.previous->next = &link;
    head_.previous = &link;
  }
  // `visit` may take the element that it is given out of the list.
  template <class Visit>
  void each(Visit visit) {
    for (Link<Tag>*at = head_.next, *next; at != &head_; at = next) {
      next = at->next;
      visit(static_cast<T&>(*at));
    }
  }

 private:
  Link<Tag> head_;
};

}  // namespace loadgen
