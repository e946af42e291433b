"""Stand-ins for NVIDIA's download site and .run installers.  See README.md beside this file."""
