/* What harness.c asks of an application: one inference on the bytes of all inputs. No prototype of ST's is in here. */
#ifndef APPLICATION_H
#define APPLICATION_H

extern const unsigned application_input_bytes;
extern const unsigned application_output_bytes;

/* 0, or the number of the line where something went wrong. */
int application(const unsigned char *input, unsigned char *output);

/* Stands for printf, whose formats the compiler checks. */
void app_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            return __LINE__;                                                                                           \
        }                                                                                                              \
    } while (0)

#endif /* APPLICATION_H */
