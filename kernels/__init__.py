"""Loop kernels and their inputs. `kernels.catalog` lists them; no kernel file knows the framework."""
