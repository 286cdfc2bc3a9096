"""Files and folders that survive faults: durable writes, locks, caches of code."""
