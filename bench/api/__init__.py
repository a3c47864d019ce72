"""The Python API: what `import bench` offers. Import the names from `bench` itself, not from here."""
