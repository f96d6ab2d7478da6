"""verdict.json -> REPORT.md and report.html. Reads what the analysis wrote; the way in is `render.render`."""
