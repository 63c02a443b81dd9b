"""Path telemetry: switches write into packets what they meet on their way."""
