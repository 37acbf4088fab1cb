"""A small marketplace that keeps its own bookings and lets Duebook do nothing but wake it at the right time."""
