// The page of the viewer: a template with a script and a style, which are built from viewer/, and
// either the data itself (one file that needs no server) or the names of what the server has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pellucid/api.h"

namespace pellucid::serve {

/// What was built from viewer/: page.html, app.js and app.css.
struct Assets {
  std::string page, script, style;
};
/// Reads them: in a source tree from build/viewer, else from share/pellucid/viewer beside the
/// library, or where PELLUCID_VIEWER says. Throws IoError that says how to build them.
PELLUCID_API Assets load_assets();

/// One opened thing, as the page lists it.
struct PageItem {
  std::string name, kind, side;  ///< "p.pellucid", "profile", "A" or "B"
};

enum class PageMode : uint8_t { File, Server };

/// A page, and its policy: in the page itself where it is a file, else for its server to send.
struct Page {
  std::string html, policy;
};
/// `data` holds the containers of the items where the page is a file of its own, else nothing.
/// Throws IoError for a template that lacks one of its places.
PELLUCID_API Page make_page(const Assets& assets, PageMode mode, const std::vector<PageItem>& items,
                            const std::vector<std::string>& data);

}  // namespace pellucid::serve
