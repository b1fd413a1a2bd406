"""What a person sees of the stored state of stage 1 and may change of it: values, ports and decisions. No I/O."""
