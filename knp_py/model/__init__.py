"""Values and enums that every other layer shares. No I/O, no clock, no logic beyond matching."""
