"""Files and streams. The only place that opens anything."""
