"""Many runs and large estimates on Dask workers; an extra, imported only when asked for."""
