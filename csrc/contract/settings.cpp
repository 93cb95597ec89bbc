#include "contract/settings.h"

#include "contract/json_fields.h"

namespace fastqps {

std::string read_settings(std::string_view json, DoorSettings& to) { return json::parse(json, to); }

}  // namespace fastqps
