// Opens an address in the user's browser without showing it to other users.
#pragma once

#include <string>

namespace pellucid::cli::view {

/// Asks the desktop to open the address; does nothing where there is none. The address holds a
/// secret, and other users can read the arguments of every program. So the browser is given a file
/// that only its owner can read and that leads to the address; it is removed with this object.
class Browser {
 public:
  explicit Browser(const std::string& address);
  ~Browser();
  Browser(const Browser&) = delete;

 private:
  std::string file_;
};

}  // namespace pellucid::cli::view
